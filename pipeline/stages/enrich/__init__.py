"""Stage 3, in steps: recognise, structure, caption, embed."""
