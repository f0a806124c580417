"""The stages of a refresh, the steps within them, and reports of their progress."""

from enum import StrEnum
from typing import Protocol


class Stage(StrEnum):
    """A stage, in order, as notes, logs and the Airflow UI name it."""

    PLAN = "plan"
    PARSE = "parse"
    ENRICH = "enrich"
    ASSEMBLE = "assemble"
    CHECK = "check"
    BUILD = "build"
    EVALUATE = "evaluate"
    PUBLISH = "publish"


class Step(StrEnum):
    """A step within a stage, as progress and failures name it."""

    RECOGNISE = "recognise"
    STRUCTURE = "structure"
    DRAW = "draw"
    CAPTION = "caption"
    EMBED = "embed"
    TAG = "tag"


ON_A_VERSION = {
    Stage.ENRICH: "Read words off pictures, structure the documents, embed their texts (on Ray). Finished work is kept.",
    Stage.ASSEMBLE: "Write the rows of the new version; tags are numbered here.",
    Stage.CHECK: "Hold the rows to their contract (Great Expectations) and to conservation: nothing that came in is missing.",
    Stage.BUILD: "Make the collection of the version, from its parent's where little changed, and read rows of it back.",
    Stage.EVALUATE: "Put the golden questions to the new version and to the live one.",
}
"""The stages that work on the version as a whole, in order, with their descriptions."""


class Report(Protocol):
    """Is called with progress."""

    def __call__(self, step: str, completed: int, total: int, spent: str = "", /) -> None:
        """Report the progress of a step, and its spending so far; "" for a step without cost."""
        ...


def silent(_step: str, _done: int, _total: int, _spent: str = "") -> None:
    """Report to nobody."""
