"""The page on statistics: its table of cells, what it compares, and how it shows it."""
