"""The page on univariate networks: its figures, and its results for the scorecard."""
