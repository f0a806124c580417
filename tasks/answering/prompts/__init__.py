"""Packaged prompts for models at query time; placeholders are those of ``string.Template``."""
