"""Object stores and sources of documents."""
