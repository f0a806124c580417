"""The stages of a refresh, and the steps within them."""

from enum import StrEnum


class Stage(StrEnum):
    """A stage, in order, as notes, logs and the Airflow UI name it."""

    PLAN = "plan"
    PARSE = "parse"
    ENRICH = "enrich"
    ASSEMBLE = "assemble"
    TAG = "tag"
    CHECK = "check"
    BUILD = "build"
    EVALUATE = "evaluate"
    PUBLISH = "publish"


class Step(StrEnum):
    """A step within a stage, as progress and failures name it."""

    RECOGNISE = "recognise"
    SEGMENT = "segment"
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
