"""Prompts of judges."""
