"""Work on Ray: actors over batches."""
