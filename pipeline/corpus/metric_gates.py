"""Gates on metrics of experiments, which an installed package judges: an entry point of the group below is a module."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from schemas.base import extensions
from schemas.corpus import Corpus
from schemas.errors import UserError
from schemas.gates import GateResult
from schemas.stages import Report

if TYPE_CHECKING:
    from pipeline.corpus.workspace import Workspace

GROUP = "inset.metric_gates"


class MetricGates(Protocol):
    """What judges gates on metrics."""

    def settings(self, corpus: Corpus) -> Mapping[str, object]:
        """Return what a judgement depends on."""

    def check(self, workspace: "Workspace") -> None:
        """Raise ``UserError`` if gates name a system or a metric that there isn't, or there are no questions."""

    def judge(self, workspace: "Workspace", version: str, report: Report) -> list[GateResult]:
        """Return the results of the gates for a version."""


def metric_gates(corpus: Corpus) -> MetricGates | None:
    """Return what judges a corpus's gates on metrics; None if the corpus file names none.

    Raises:
        UserError: It names some, and no installed package judges them.
    """
    if not corpus.gates.metrics:
        return None
    installed = extensions(GROUP)
    if not installed:
        raise UserError(
            f"corpus {corpus.name}: gates.metrics needs the lab, which isn't installed; remove it, or install the lab"
        )
    return cast(MetricGates, installed[0].load())
