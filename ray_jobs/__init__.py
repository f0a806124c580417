"""Work on Ray: actors over batches, and Ray Jobs."""
