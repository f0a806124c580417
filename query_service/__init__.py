"""The read side: HTTP and the web page. Thin."""
