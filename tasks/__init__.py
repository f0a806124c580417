"""The verbs: same input, same output; no clock, no network, no files."""
