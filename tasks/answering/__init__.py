"""From a question to evidence and answers."""
