"""The page on what training reveals: its figures, and its results for the scorecard."""
