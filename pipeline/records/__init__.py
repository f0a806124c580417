"""Records in a corpus's store."""
