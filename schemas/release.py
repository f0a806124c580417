"""The release of Inset."""

RELEASE = "0.2.0"
