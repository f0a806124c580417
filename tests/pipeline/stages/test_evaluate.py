"""Golden questions are answered as the service answers them, and those that nothing answers should get no answer."""

import json
from contextlib import closing

import pytest

from evaluation.golden import ModeReport
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.differences import JUDGED
from pipeline.records.publication import read_pointer
from pipeline.stages.evaluate import evaluate
from schemas.ids import version_file
from schemas.retrieval import AnswerQuery
from tests.pipeline.conftest import write_corpus

ASKED = {"Which screws hold the steel winch?": True, "Who composed the opera Tosca?": False}


@pytest.mark.parametrize(
    ("options", "answered", "abstained"),
    [("", 1.0, 1.0), ("answer: {abstain_below: 0}\n", 1.0, 0.0), ("answer: {abstain_below: 1}\n", 0.0, 1.0)],
    ids=["as it is", "always", "never"],
)
def test_a_version_is_judged_by_what_it_answers_and_abstains_from(
    published: Workspace, options: str, answered: float, abstained: float
) -> None:
    folder = published.file.parent.parent
    questions = (
        {"id": words, "question": words, "doc": "winch.pdf", "pages": [1] if answerable else [], "answerable": answerable}
        for words, answerable in ASKED.items()
    )
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, questions)))
    pointer = read_pointer(published.store)
    assert pointer is not None
    workspace = open_workspace(str(write_corpus(folder, f"questions: ../q.jsonl\n{options}")))
    evaluate(workspace, pointer.version)
    data = workspace.store.get(version_file(pointer.version, f"evaluation/{JUDGED}.json"))
    judged = ModeReport.model_validate_json(data)
    assert (judged.questions, judged.answered, judged.abstained) == (1, answered, abstained)
    with closing(PublishedCorpus(workspace)) as serving:
        is_answered = {words: bool(serving.answer(AnswerQuery(words)).parts) for words in ASKED}
    assert list(is_answered.values()) == [answered == 1.0, abstained == 0.0], "as the service does"
