"""Univariate two-layer networks and their linear regions (Safran, Vardi and Lee)."""
