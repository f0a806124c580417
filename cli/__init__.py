"""The command ``inset``: arguments in, progress bars and JSON out."""
