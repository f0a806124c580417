"""From the pages of a PDF to a document in reading order."""
