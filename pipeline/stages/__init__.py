"""The stages of a refresh. They share records, and don't import each other."""
