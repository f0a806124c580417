"""What generative models are asked while somebody waits: prompts as files, with placeholders of ``string.Template``."""
