"""Tables: their cells, with rules and without."""
