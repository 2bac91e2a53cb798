"""What the papers state, and whether our results support it."""
