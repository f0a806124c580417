"""The differences between two versions."""

from pydantic import AliasChoices, Field

from schemas.frozen import Frozen


class ChangedDocuments(Frozen):
    """Changed sources. ``lost`` were indexed before and are in quarantine now; ``recovered`` the other way.

    ``quarantined`` are all that are in quarantine now.
    """

    added: list[str]
    changed: list[str]
    removed: list[str]
    lost: list[str]
    recovered: list[str] = Field(validation_alias=AliasChoices("recovered", "mended"))  # the latter: in older versions
    quarantined: list[str] = Field([])


class ChangedFigure(Frozen):
    """A tagged figure in only one of the versions, at its first placement."""

    figure_id: str
    tag: str
    source: str
    page: int
    caption: str


class ChangedQuestions(Frozen):
    """Golden questions of both versions: ``won`` find their page only now, ``lost`` only before."""

    asked: int
    won: list[str]
    lost: list[str]


class NumberChange(Frozen):
    """A number in both versions; None if one lacks it."""

    before: float | None
    now: float | None


class VersionDiff(Frozen):
    """The differences from ``base`` to ``version``; if ``base`` is None everything is new."""

    corpus: str
    base: str | None
    version: str
    documents: ChangedDocuments
    figures_gained: list[ChangedFigure] = Field(description="By source and page, the first 10,000 of them.")
    figures_lost: list[ChangedFigure] = Field(description="By source and page, the first 10,000 of them.")
    more_figures_gained: int = Field(0, description="How many were gained beside those that are named.")
    more_figures_lost: int = Field(0, description="How many were lost beside those that are named.")
    questions: ChangedQuestions
    metrics: dict[str, NumberChange] = Field(description="Of the golden questions, by the default preset.")
    counts: dict[str, NumberChange] = Field(description="What the versions hold.")
    work: dict[str, NumberChange] = Field(description="What it took to make them: documents and pictures done, seconds.")
    settings: dict[str, list[object]] = Field(description="Models and parameters that differ: before and now.")
