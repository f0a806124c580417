"""Models: embedders, recognisers, detectors."""
