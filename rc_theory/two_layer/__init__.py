"""Theorems on two-layer networks (v1 App. G, v3 Sec. 6.2)."""
