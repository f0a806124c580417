"""A notifier that writes what it would send to a file."""

from pathlib import Path
from typing import Any

from airflow.sdk.bases.notifier import BaseNotifier


class FileNotifier(BaseNotifier):
    """Adds a line of text, which may be a template, to a file."""

    template_fields = ("text",)

    def __init__(self, *, file: str, text: str) -> None:
        super().__init__()
        self.file, self.text = file, text

    def notify(self, context: Any) -> None:
        """Write the line."""
        with Path(self.file).open("a", encoding="utf-8") as out:
            out.write(f"{self.text}\n")
