"""Glossaries: each YAML file beside this module lists terms (``terms``), and words that a search adds for them (``adds``).

Documents may hold the parts of a measure but never its name: no annual report prints its quick ratio.
"""

import functools
import re
from importlib.resources import files

import yaml


def expanded(question: str, glossary: str) -> str:
    """Return a question followed by the words that a glossary adds for its terms, each once.

    A term matches as whole words, in any case and number.
    """
    added = [word for pattern, words in _entries(glossary) if pattern.search(question) for word in words]
    return " ".join([question, *dict.fromkeys(added)])


@functools.cache
def _entries(glossary: str) -> list[tuple[re.Pattern[str], list[str]]]:
    read = yaml.safe_load((files(__name__) / f"{glossary}.yaml").read_text(encoding="utf-8"))
    return [(_pattern(entry["terms"]), entry["adds"].split()) for entry in read]


def _pattern(terms: list[str]) -> re.Pattern[str]:
    spelled = (r"[\s-]+".join(map(re.escape, term.split())) for term in terms)
    return re.compile(rf"\b(?:{'|'.join(spelled)})s?\b", re.IGNORECASE)
