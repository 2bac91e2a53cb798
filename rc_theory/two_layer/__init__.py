"""The theorems of two-layer networks (v1 App. G, v3 Sec. 6.2), run, and half-spaces against v1
Theorem 5.
"""
