"""The page on the theory of two-layer networks: its figures, and its results for the scorecard."""
