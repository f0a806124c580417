"""A single PDF without a corpus: parsed, viewed."""
