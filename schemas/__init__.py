"""The nouns: contracts, ids, errors and ports. No I/O, no heavy import."""
