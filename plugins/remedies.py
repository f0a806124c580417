"""Remedies as Airflow's UI names them.

A remedy is a command, such as ``inset publish manuals VERSION``, which names what to do and of which corpus. The CLI shows it
as it is. Whoever reads it in the UI has no shell on this machine: there it is the button or page that does the same.
"""

import logging
import re

_ON_TAB = "on the tab Inset of refresh_{corpus}"
PLACES = {
    "access": "the DAG inset_access",
    "correct": f"Corrections {_ON_TAB}",
    "diff": f"Compare selected, with these versions as From and To, {_ON_TAB}",
    "doctor": f"Refresh… {_ON_TAB}, which repairs what it can",
    "evaluate": "the DAG inset_evaluate",
    "prune": f"Prune… {_ON_TAB}",
    "publish": f"Publish… {_ON_TAB}",
    "publish --override": f"Publish anyway… {_ON_TAB}",
    "quarantine": f"Quarantine {_ON_TAB}",
    "quarantine --replay": f"Replay… under Quarantine {_ON_TAB}",
    "refresh": f"Refresh… {_ON_TAB}",
    "rollback": f"Roll back… {_ON_TAB}",
    "status": "the page Inset of the navigation",
    "versions": f"the versions {_ON_TAB}",
}
"""Where the UI does what a command does, by the command and the option that changes what it does."""

_NAMED = r"(?:VERSION|\d{8}T\d{6}Z-[0-9a-f]+)"
_COMMAND = re.compile(
    r"\binset (?P<command>" + "|".join(sorted({place.partition(" ")[0] for place in PLACES})) + r")\b"
    r"(?: (?P<corpus>[A-Za-z][A-Za-z0-9_]*)\b)?"
    rf"(?P<versions>(?: {_NAMED})*)"
    r"(?P<option> --\w+)?(?: \"REASON\")?"
)
_DOCTOR_FIRST = re.compile(r"\binset doctor \w+ --deep, then (?=inset refresh )")
"""In the UI, both are the same button."""


def in_ui(text: str) -> str:
    """Return a text with each command replaced by its place in the UI."""
    return _COMMAND.sub(_place, _DOCTOR_FIRST.sub("", text))


def _place(match: "re.Match[str]") -> str:
    place_in_ui = PLACES.get(f"{match['command']}{match['option'] or ''}", PLACES[match["command"]])
    versions = f" ({match['versions'].strip().replace(' ', ', ')})" if match["versions"] else ""
    # Without a corpus, the list of corpora leads to its tab.
    place_in_ui = (
        place_in_ui.format(corpus=match["corpus"]) if match["corpus"] else place_in_ui.partition(" on the tab ")[0]
    )
    return place_in_ui + versions


def name_places(record: logging.LogRecord) -> bool:
    """Name places in place of commands in a log record; a filter that keeps all records."""
    record.msg, record.args = in_ui(record.getMessage()), ()
    return True
