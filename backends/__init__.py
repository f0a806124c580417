"""The outside world behind ports: stores, sources, models, OCR, index engines."""
