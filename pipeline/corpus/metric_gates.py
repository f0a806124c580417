"""Gates on metrics of experiments, which an installed package judges: an entry point of the group below is a module."""

from typing import Any

from schemas.base import extensions
from schemas.corpus import Corpus
from schemas.errors import UserError

GROUP = "inset.metric_gates"


def metric_gates(corpus: Corpus) -> Any:
    """Return the module that judges a corpus's gates on metrics; None if the corpus file names none.

    Its functions are ``settings(corpus)``, which returns what a judgement depends on by name, ``check(workspace)``, which raises
    ``UserError`` if gates name a system or a metric that there isn't, or there are no questions, and
    ``judge(workspace, version, report)``, which returns a list of ``GateResult``.

    Raises:
        UserError: The file names some, and no installed package judges them.
    """
    if not corpus.gates.metrics:
        return None
    installed = extensions(GROUP)
    if not installed:
        raise UserError(
            f"corpus {corpus.name}: gates.metrics needs the lab, which isn't installed; remove it, or install the lab"
        )
    return installed[0].load()
