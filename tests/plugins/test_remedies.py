"""Remedies in Airflow's UI: no command for a shell that its reader doesn't have."""

import ast
import logging
import re
from pathlib import Path

import pytest

from pipeline.records.manifests import override_hint
from plugins.airflow_run import logged_errors
from plugins.remedies import PLACES, in_ui
from schemas.errors import GateError, MissingError

REPOSITORY = Path(__file__).parents[2]
VERSION = "20261126T043749Z-0a1b2c3d"
SEEN_IN_THE_UI = ("backends", "evaluation", "pipeline", "ray_jobs", "schemas", "tasks", "workers")
NO_PLACE = {"feedback", "forget", "init", "parse", "presets", "serve"}
"""Commands that only a person with a shell can run: the UI has nothing that does the same."""


def _commands(file: Path) -> set[str]:
    """Return the commands that texts of a module name, docstrings apart."""
    tree = ast.parse(file.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )
    return {command for text in texts for command in re.findall(r"(?:^|[\s`(])inset ([a-z]+)\b", text)}


def test_each_command_that_a_message_names_has_a_place_in_the_ui() -> None:
    commands = set.union(*(_commands(file) for package in SEEN_IN_THE_UI for file in (REPOSITORY / package).rglob("*.py")))
    assert "publish" in commands
    assert commands - NO_PLACE <= {command_line.partition(" ")[0] for command_line in PLACES}


@pytest.mark.parametrize(
    ("text", "ui_text"),
    [
        (
            override_hint("manuals", VERSION),
            f"if it is to go live all the same: Publish anyway… on the tab Inset of refresh_manuals ({VERSION})",
        ),
        (
            "to see why: inset quarantine manuals; to try them again: inset quarantine manuals --replay",
            "to see why: Quarantine on the tab Inset of refresh_manuals; "
            "to try them again: Replay… under Quarantine on the tab Inset of refresh_manuals",
        ),
        (
            "inset doctor manuals --deep, then inset refresh manuals",
            "Refresh… on the tab Inset of refresh_manuals",
        ),
        (f"compare: inset diff a_b {VERSION} {VERSION}, or", f"({VERSION}, {VERSION}), or"),
        ("repair it with: inset doctor (timed out)", "repair it with: Refresh… (timed out)"),
        ("make one: inset init NAME", "make one: inset init NAME"),
        ("the inset publishes its figures", "the inset publishes its figures"),
    ],
)
def test_a_command_is_shown_as_its_place(text: str, ui_text: str) -> None:
    assert ui_text in in_ui(text)
    assert "inset doctor" not in in_ui(text)


def test_the_log_the_error_and_its_retry_name_places(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(GateError) as refused, logged_errors():
        raise GateError("it was refused", override_hint("manuals", VERSION))
    for text in (refused.value.message, str(refused.value), caplog.text):
        assert "Publish anyway…" in text
        assert "inset publish" not in text
    with pytest.raises(MissingError) as lost, logged_errors():
        raise MissingError("it is gone; to make it again: inset refresh manuals", "figures/1.png")
    assert (lost.value.name, lost.value.message.endswith("on the tab Inset of refresh_manuals")) == ("figures/1.png", True)
    with logged_errors():
        logging.getLogger("pipeline.run_log").error("gate x REFUSES: %s", "to see why: inset quarantine manuals")
    assert "REFUSES: to see why: Quarantine on the tab Inset of refresh_manuals" in caplog.text
