"""Where heavy work runs, and the one place where an exception becomes a row."""
