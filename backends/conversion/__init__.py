"""Documents in other formats made into PDFs."""
