"""A local page on which a person judges the rows of a pool."""
