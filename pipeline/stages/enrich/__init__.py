"""Stage 3, in steps: recognise and segment, structure, caption, embed."""
