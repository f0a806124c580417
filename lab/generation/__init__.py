"""Questions that models write from the contents of a version."""
