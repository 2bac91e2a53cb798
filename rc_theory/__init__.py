"""The theorems of the three papers, run (pages 08, 09, 10 and 19)."""
