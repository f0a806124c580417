"""What readers said of answers, an object each below ``feedback/<version>/``, and ``DECISIONS.json``: what became of it.

What readers asked is below ``asked/<version>/``, an object for each day and process of the service, which replaces its own.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from backends.stores.objects import change_model, read_changing, readable_models, unless_damaged
from evaluation.questions import Question, load_questions
from pipeline.corpus.workspace import Workspace
from schemas.asked import AskedOfDay
from schemas.errors import UserError
from schemas.feedback import Decision, Decisions, Feedback
from schemas.ids import MOMENT
from schemas.ports import ObjectStore

FOLDER, ASKED = "feedback", "asked"
DECISIONS = "DECISIONS.json"

COMPLAINT = "feedback-"
"""Begins the ids of golden questions that are made of feedback."""

MOST_ENTRIES = 10_000
"""Entries of a version, some 1 KB each: more are a flood that nobody reads."""


def add_feedback(store: ObjectStore, feedback: Feedback) -> str | None:
    """Store what a reader said, and return its id; None where the version has ``MOST_ENTRIES`` entries already."""
    folder = f"{FOLDER}/{feedback.version}"
    if len(store.names(folder)) >= MOST_ENTRIES:
        return None
    store.put(f"{folder}/{feedback.at:{MOMENT}}-{feedback.id}.json", feedback.model_dump_json().encode())
    return feedback.id


def read_feedback(store: ObjectStore) -> list[Feedback]:
    """Return what readers said of all versions, newest first, without damaged entries."""
    names = sorted(store.names(FOLDER), key=_moment, reverse=True)
    return [*readable_models(store, names, Feedback)]


def write_asked(store: ObjectStore, process: str, asked_of_day: AskedOfDay) -> None:
    """Replace what a process has counted of a day."""
    name = f"{ASKED}/{asked_of_day.version}/{asked_of_day.day:%Y%m%d}-{process}.json"
    store.replace(name, asked_of_day.model_dump_json().encode())


def read_asked(store: ObjectStore, days: int) -> Iterator[AskedOfDay]:
    """Yield what was counted on the last days, without damaged objects."""
    since = f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}"
    return readable_models(store, (name for name in store.names(ASKED) if _moment(name) > since), AskedOfDay)


def remove_old_feedback(store: ObjectStore, keep_days: int) -> None:
    """Remove entries, and counts of questions, that are older than some days."""
    oldest = f"{datetime.now(UTC) - timedelta(days=keep_days):{MOMENT}}"
    for name in (*store.names(FOLDER), *store.names(ASKED)):
        if _moment(name) < oldest:
            store.delete(name)


def remove_feedback(store: ObjectStore, names_any: Callable[[str], bool]) -> None:
    """Remove entries, counts and decisions of which ``names_any`` returns true for the stored text, and damaged ones."""
    for name in (*store.names(FOLDER), *store.names(ASKED)):
        data = unless_damaged(partial(store.get, name))
        if data is None or names_any(data.decode("utf-8", "replace")):
            store.delete(name)
    if store.exists(DECISIONS):
        change_decisions(
            store, lambda decisions: [decision for decision in decisions if not names_any(decision.model_dump_json())]
        )


def change_decisions(store: ObjectStore, change: Callable[[list[Decision]], list[Decision]]) -> None:
    """Replace the decisions, those that are undone too, oldest first, as ``change_model`` does."""
    change_model(store, DECISIONS, Decisions, lambda stored: Decisions(decisions=change(stored.decisions)))


def decided(store: ObjectStore) -> Mapping[str, Decision]:
    """Return the decision that holds on each entry that has one, by the entry's id."""
    decisions = read_changing(store, DECISIONS, Decisions)[0].decisions
    return {decision.entry: decision for decision in decisions if not decision.undone}


def entry_of(store: ObjectStore, entry_id: str) -> Feedback:
    """Return an entry by its id, or raise ``UserError``."""
    entry = next((entry for entry in read_feedback(store) if entry.id == entry_id), None)
    if entry is None:
        raise UserError(f"there is no feedback {entry_id!r}; to see what there is: inset feedback CORPUS")
    return entry


def golden_questions(workspace: Workspace) -> list[Question]:
    """Return the golden questions of the corpus's file and those that operators made of feedback; [] for none.

    Raises:
        UserError: The file can't be read, or a line of it is invalid.
    """
    file = workspace.corpus.questions
    questions = load_questions(file) if file is not None else []
    for entry_id, decision in decided(workspace.store).items():
        if decision.region is None:
            continue
        region = {"page": decision.region.page, "doc": decision.region.source.rpartition("/")[2]}
        figures = [{**region, "bbox": decision.region.bbox}] if decision.region.figure_id else []
        fields = {"id": f"{COMPLAINT}{entry_id}", "question": decision.question, "pages": [region], "figures": figures}
        questions.append(Question.model_validate({**fields, "documents": [region["doc"]]}))
    return questions


def _moment(name: str) -> str:
    return name.rpartition("/")[2]
