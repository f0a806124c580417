"""How good a version is."""
