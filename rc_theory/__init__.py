"""The theorems, run: two-layer networks and half-spaces (page 08), univariate networks (09),
training (10).
"""
