"""Commands of the lab, which ``inset`` has where the lab is installed."""
