"""Published corpora: versions opened, searched, answered from, shown and exported."""
