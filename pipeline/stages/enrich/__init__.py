"""Stage 3, in steps: recognise and segment, structure, caption, embed."""

from pipeline.stages.enrich.stage import enrich

__all__ = ["enrich"]
