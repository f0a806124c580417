"""From a document to rows of the index: chunks, captions, and what is embedded."""
