"""What the stages of a refresh leave for each other, and how the last refresh went."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from backends.stores.objects import read_model, read_table, unless_damaged
from pipeline.records.row_parts import IN, OF_TYPE
from schemas.base import Frozen
from schemas.errors import Failure
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.parquet import Rows, schema_of, to_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage
from schemas.versions import Calibration, Counts, Plan, PlannedDocument, Spent

_PLANNED = "plan.parquet"


class StageNote(BaseModel):
    """The result of a stage: failures, gates, counts and seconds.

    ``spent`` is the cost of generative models, by captioner. ``judged_by`` (the preset's steps) and ``calibration``
    come from ``evaluate``.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    seconds: float
    failures: list[Failure] = []
    gates: list[GateResult] = []
    counts: dict[str, int] = {}
    spent: dict[str, Spent] = {}
    judged_by: dict[str, JsonValue] | None = None
    calibration: Calibration | None = None


DERIVATIONS = "derivations"
"""Count of the note of ``build``: how often the collection was derived from another since it was filled."""

SINCE_FILL = "documents_since_fill"
"""Count of the note of ``build``: changed documents since the collection was filled."""


def write_plan(store: ObjectStore, plan: Plan) -> None:
    """Write a plan to its version's folder; its documents are a table, since a corpus may have very many."""
    documents = Rows.of(PlannedDocument, plan.documents).table
    store.replace(version_file(plan.version, _PLANNED), to_parquet(documents))
    # Written last, so that whoever finds ``plan.json`` finds its documents.
    store.replace(version_file(plan.version, "plan.json"), plan.model_dump_json(exclude={"documents"}).encode())


def read_plan_summary(store: ObjectStore, version: str) -> Plan:
    """Return a version's plan without its documents, which takes one read."""
    return read_model(store, version_file(version, "plan.json"), Plan)


def read_plan(store: ObjectStore, version: str) -> Plan:
    """Return a version's plan."""
    plan = read_plan_summary(store, version)
    documents = read_table(store, version_file(version, _PLANNED), schema_of(PlannedDocument))
    return plan.model_copy(update={"documents": Rows(PlannedDocument, documents)})


def write_note(store: ObjectStore, version: str, stage: Stage, note: StageNote, *, shard: int | None = None) -> StageNote:
    """Write the note of a stage; ``parse`` has one a shard (``parse-0003``)."""
    name = stage if shard is None else f"{stage}-{shard:04}"
    store.replace(version_file(version, f"stages/{name}.json"), note.model_dump_json().encode())
    return note


def read_notes(store: ObjectStore, version: str, stages: Iterable[Stage] = Stage) -> dict[Stage, StageNote]:
    """Return the notes of a version's stages, shards joined."""
    stage_order = tuple(stages)
    notes: dict[Stage, list[StageNote]] = {}
    for name in store.names(version_file(version, "stages")):
        stage = name.rpartition("/")[2].removesuffix(".json").partition("-")[0]
        if stage in stage_order:
            notes.setdefault(Stage(stage), []).append(read_model(store, name, StageNote))
    return {stage: join_notes(notes[stage]) for stage in stage_order if stage in notes}


def counts_of(counts: Mapping[str, int]) -> Counts:
    """Return the contents of a version, as the note of ``assemble`` has counted them."""

    def by_name(prefix: str) -> dict[str, int]:
        return {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}

    return Counts(
        rows_by_modality=by_name("rows_"),
        documents_by_language=by_name(IN),
        documents_by_type=by_name(OF_TYPE),
        **{name: count for name, count in counts.items() if name in Counts.model_fields},
    )


def join_notes(notes: Sequence[StageNote]) -> StageNote:
    """Join the notes of the shards of ``parse``; any other stage has one note."""
    if len(notes) == 1:
        return notes[0]
    counts = Counter[str]()
    for note in notes:
        counts.update(note.counts)
    return StageNote(
        seconds=sum(note.seconds for note in notes),
        failures=[failure for note in notes for failure in note.failures],
        counts=dict(counts),
    )


_NAME = "last_refresh.json"

RefreshState = Literal["started", "retrying", "waiting", "failed", "rejected", "published", "unchanged", "held", "refused"]


class LastRefresh(Frozen, extra="ignore"):
    """The last refresh, which came into its ``state`` ``at`` a time, and built or found ``version``.

    ``state`` is ``started`` until it ends, ``retrying`` or ``waiting`` for an answer meanwhile; a killed one stays so.
    ``message`` says why it is tried again, has failed or was rejected, or what it asks; ``task`` is the one concerned, and
    ``until`` the time by which the answer, or the next try, is due.
    """

    run_id: str
    at: datetime
    state: RefreshState
    version: str
    message: str = ""
    task: str = ""
    until: datetime | None = None


def write_last_refresh(store: ObjectStore, last_refresh: LastRefresh) -> None:
    """Replace the record."""
    store.replace(_NAME, last_refresh.model_dump_json().encode())


def read_last_refresh(store: ObjectStore) -> LastRefresh | None:
    """Return the record; None if there is none, or it can't be read."""
    return unless_damaged(lambda: read_model(store, _NAME, LastRefresh))


def note_refresh(
    store: ObjectStore,
    run_id: str,
    state: RefreshState,
    message: str = "",
    *,
    task: str = "",
    until: datetime | None = None,
    version: str | None = None,
) -> None:
    """Record how a refresh goes on, and the ``version`` that it builds or has found.

    One that has published, or found nothing to publish, can only fail, unless a version is named.
    """
    before = read_last_refresh(store) or LastRefresh(run_id=run_id, at=datetime.now(UTC), state=state, version="")
    if version is None and before.run_id == run_id and before.state in ("published", "unchanged") and state != "failed":
        return
    # Another machine's clock may be ahead, and what is noted later counts.
    at = max(datetime.now(UTC), before.at)
    version = before.version if version is None else version
    noted = LastRefresh(run_id=run_id, at=at, state=state, version=version, message=message, task=task, until=until)
    write_last_refresh(store, noted)
