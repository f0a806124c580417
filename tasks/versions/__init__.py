"""From documents to a version: rows, tags, laws and differences."""
