"""Prompts for questions."""
