"""Packaged experiments with the presets of their papers: each YAML file beside this module is one."""
