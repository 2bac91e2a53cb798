"""Theorems of three papers, checked by computation (pages 08, 09, 10 and 19)."""
