"""What a corpus keeps in its store, read and written."""
