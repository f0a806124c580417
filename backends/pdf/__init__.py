"""PDF: the one package that reads with PyMuPDF.

``document.open_document`` gives what steps read (``PdfDocument`` in ``schemas/ports.py``), ``inscribe`` writes tags into a copy,
``pixels`` draws pages for people.
"""
