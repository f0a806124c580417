"""Section gates: the bounds that a version must hold to be published."""

import math
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, create_model, model_validator

from schemas.corpus.fields import Section, Text
from schemas.gates import GATES, Gate, metric_gate


class MetricGate(Section):
    """A bound on a metric of the corpus's experiment: ``min`` or ``max``."""

    system: Text = Field(description="The id of a system, such as pages, or answer extractive.")
    metric: Text = Field(description="A metric, such as page_ndcg@10 or false_figure.")
    min: float | None = Field(None, description="Least mean.")
    max: float | None = Field(None, description="Largest mean.")

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.min is None) == (self.max is None):
            raise ValueError("set min or max")
        return self

    @property
    def gate(self) -> Gate:
        """The gate, without its bound."""
        return metric_gate(self.system, self.metric, at_least=self.min is not None)

    @property
    def bound(self) -> float:
        """Its bound."""
        return self.max if self.min is None else self.min  # type: ignore[return-value]  # one of them is set


class _GateOptions(Section):
    """What a version must hold to be published. Where a bound changes, refused versions are judged again; nothing is built."""

    metrics: list[MetricGate] = Field([], description="Bounds on metrics of the corpus's experiment.")

    def of(self, gate: Gate) -> float:
        if gate.key == "metrics":
            none = -math.inf if gate.at_least else math.inf
            return next((metric_bound.bound for metric_bound in self.metrics if metric_bound.gate.name == gate.name), none)
        return float(getattr(self, gate.key))


if TYPE_CHECKING:

    class GateOptions(_GateOptions):
        """A bound for each of ``schemas.gates.GATES``, by its key."""

        def __init__(self, **bounds: Any) -> None: ...

else:
    GateOptions = create_model(
        "GateOptions",
        __base__=_GateOptions,
        __module__=__name__,
        __doc__=_GateOptions.__doc__,
        **{
            gate.key: (float, Field(gate.default, ge=gate.limits[0], le=gate.limits[1], description=gate.means))
            for gate in GATES
        },
    )
