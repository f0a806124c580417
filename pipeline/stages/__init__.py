"""The stages of a refresh. None imports another: what they share are records."""
