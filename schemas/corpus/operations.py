"""Sections ray, budget, retention, gates and operations: where work runs, what it may cost, what must hold."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, create_model, field_validator, model_validator

from schemas.base import Address, Money, Section, Text, Workers
from schemas.gates import GATES, Gate, metric_gate


class RayOptions(Section):
    """Where the heavy work runs."""

    address: Address | None = Field(
        None,
        description="Address of a Ray cluster, such as ray://head:10001, or auto on one of its nodes; without one Ray runs in "
        "this process tree.",
    )
    num_cpus: Workers | None = Field(None, description="CPUs a local Ray may take; default: all.")
    runtime_env: dict[Text, JsonValue] = Field(
        {},
        description="Runtime environment of the cluster's workers, as Ray spells it, such as {pip: [...]}. Inset's own code is "
        "sent along, unless this names py_modules.",
    )

    @field_validator("runtime_env")
    @classmethod
    def _without_secrets(cls, runtime_env: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "env_vars" in runtime_env:
            raise ValueError("set environment variables where the cluster's nodes start; a corpus file is stored and shown")
        if "working_dir" in runtime_env:
            raise ValueError("bring code as py_modules, or in the image")
        return runtime_env


class Spend(Section):
    """Limits on calls of generative models, and in a refresh of embedding models at endpoints; none: no limit."""

    calls: int | None = Field(None, ge=0, le=1 << 40, description="Calls of models.")
    tokens: int | None = Field(None, ge=0, le=1 << 40, description="Tokens that they read and write.")
    money: Money | None = Field(None, description="Money, by the prices of models.")


class RetentionOptions(Section):
    """How many versions are kept."""

    versions: int = Field(5, ge=2, le=100_000, description="Versions kept, the live one included.")
    pinned: list[Text] = Field(
        [], description="Versions kept beyond that, for queries that name them; on Weaviate their collections, too."
    )


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
    """What a version must hold to be published. If a bound changes, what it refused is built again, from finished work."""

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
        **{gate.key: (float, Field(gate.default, ge=0, le=1, description=gate.means)) for gate in GATES},
    )


Hours = Annotated[float, Field(gt=0, le=87_600)]


class OperationOptions(Section):
    """How Airflow runs the corpus's refreshes, beside their schedule."""

    after_asset: Text | None = Field(
        None, min_length=1, description="URI of an Airflow asset whose updates start a refresh."
    )
    approval_h: Hours | None = Field(
        12,
        description="Hours that Airflow waits for a person to approve a version that a gate refused or a budget left "
        "incomplete; without an answer the live version stays. null: it doesn't ask.",
    )
    keep_feedback: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,4} days?$")] = Field(
        "180 days", description="How long what readers said of answers is kept."
    )
    questions: Literal["counts", "text"] | None = Field(
        None,
        description="What the service keeps of questions, as long as feedback: counts of those without a sure answer, and of "
        "documents that are cited and opened; with text also the words of the former, without e-mail addresses and keys.",
    )
    feedback_names: bool = Field(False, description="Keep the name of the caller with what a reader says of an answer.")
    notify: dict[Text, dict[Text, JsonValue]] = Field(
        {},
        description="Airflow notifiers called when a run fails, is tried again for long or waits for an answer, and when "
        "inset_watch finds something, by class, with their arguments, such as "
        "airflow.providers.smtp.notifications.smtp.SmtpNotifier: {to: docs@example.org}.",
    )
    announce: dict[Text, dict[Text, JsonValue]] = Field(
        {},
        description="Notifiers called with the release note when a version goes live, such as "
        "plugins.notify.Webhook: {url: https://search.example.org/hook}.",
    )

    @property
    def days_of_feedback(self) -> int:
        """``keep_feedback`` as a number."""
        return int(self.keep_feedback.partition(" ")[0])
