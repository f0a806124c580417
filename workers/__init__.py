"""Work on documents in forked processes with limits on time and memory."""
