"""The read side: what is live, searched, answered, shown and exported."""
