"""Theorems and experiments of Loukas, Poiitis and Jegelka on training and complexity."""
