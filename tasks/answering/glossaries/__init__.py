"""Terms and what they are made of. A YAML file beside this is a glossary: where one of ``asked`` is, ``also`` is looked for.

Documents hold the parts of a measure, and maybe never its name: no annual report prints its quick ratio.
"""

import functools
import re
from importlib.resources import files

import yaml


def expanded(question: str, glossary: str) -> str:
    """Return a question with the words that its terms are made of behind it; itself where it has none of the terms.

    A term is found as whole words, in any case, and in plural too; words that are added stand there once.

    Args:
        question: What is asked.
        glossary: The glossary's name.
    """
    added = [word for pattern, words in _entries(glossary) if pattern.search(question) for word in words]
    return " ".join([question, *dict.fromkeys(added)])


@functools.cache
def _entries(glossary: str) -> list[tuple[re.Pattern[str], list[str]]]:
    read = yaml.safe_load((files(__name__) / f"{glossary}.yaml").read_text(encoding="utf-8"))
    return [(_pattern(entry["asked"]), entry["also"].split()) for entry in read]


def _pattern(terms: list[str]) -> re.Pattern[str]:
    spelled = (r"[\s-]+".join(map(re.escape, term.split())) for term in terms)
    return re.compile(rf"\b(?:{'|'.join(spelled)})s?\b", re.IGNORECASE)
