"""When and how wide: one refresh DAG a corpus file. No logic."""
