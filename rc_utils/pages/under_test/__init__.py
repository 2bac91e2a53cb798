"""The page of the five studies: their runs, what decides in each, and its figures."""
