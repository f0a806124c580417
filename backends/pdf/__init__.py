"""PDF: the one place that imports PyMuPDF."""
