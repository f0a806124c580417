"""Commands of the lab, which ``inset`` has if the lab is installed."""
