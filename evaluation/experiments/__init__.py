"""Packaged experiments: each YAML file beside this module is one."""
