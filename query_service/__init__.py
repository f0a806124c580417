"""The query service: HTTP API and web page."""
