"""An answer, a nearest passage that may not answer, or none: by confidence, as the corpus file and the manifest say."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.published.version import open_version
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from schemas.retrieval import AnswerQuery, Query
from schemas.versions import Calibration
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

ASKED = "Which screws hold the steel winch?"


@pytest.mark.parametrize(
    ("options", "abstained", "unsure"),
    [
        ("{abstain_below: 0}", False, False),
        ("{abstain_below: 1}", True, False),
    ],
)
def test_thresholds_of_the_corpus_file_decide(published: Workspace, options: str, abstained: bool, unsure: bool) -> None:
    folder = published.file.parent.parent
    workspace = open_workspace(str(write_corpus(folder, f"answer: {options}\n")))
    with closing(PublishedCorpus(workspace)) as serving:
        answer = serving.answer(AnswerQuery(ASKED))
    assert (answer.abstained, answer.unsure) == (abstained, unsure)
    assert answer.confidence is not None
    assert 0 < answer.confidence < 1
    assert bool(answer.parts) is not abstained


def test_a_question_of_another_field_gets_no_sure_answer(published: Workspace) -> None:
    with closing(PublishedCorpus(published)) as serving:
        foreign, answerable = (
            serving.answer(AnswerQuery("Who composed the opera Tosca?")),
            serving.answer(AnswerQuery(ASKED)),
        )
    assert foreign.abstained or foreign.unsure
    assert not answerable.abstained
    assert (foreign.confidence or 0.0) < (answerable.confidence or 0.0)


def test_the_manifest_has_what_golden_questions_taught(tmp_path: Path) -> None:
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    golden = [
        {"id": "a", "question": ASKED, "doc": "winch.pdf", "pages": [1]},
        {"id": "b", "question": "Who composed the opera Tosca?", "answerable": False},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, golden)))
    workspace = open_workspace(str(write_corpus(tmp_path, "questions: ../q.jsonl\n")))
    refresh(workspace)
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    manifest = read_manifest(workspace.store, pointer.version)
    assert manifest is not None
    assert isinstance(manifest.calibration, Calibration)
    assert manifest.calibration.answerable == 1
    assert manifest.calibration.unanswerable["golden"] == 1
    assert open_version(workspace, pointer.version).calibration == manifest.calibration
    before = manifest.model_dump(mode="json", exclude={"calibration"})
    assert type(manifest).model_validate(before).calibration is None


@pytest.mark.parametrize(
    ("question", "doubtful"),
    [
        (ASKED, "Which screws of Zephyron hold the steel winch?"),
        ("How is the steel winch held?", "How is the steel winch of 98765 kg held?"),
        ("What does the picture of the steel winch show?", "What does Figure 98 of the steel winch show?"),
    ],
)
def test_what_no_passage_has_lowers_confidence(published: Workspace, question: str, doubtful: str) -> None:
    with closing(PublishedCorpus(published)) as serving:
        sure, unsure = (serving.answer(AnswerQuery(words)) for words in (question, doubtful))
    assert (unsure.confidence or 0.0) < (sure.confidence or 0.0) - 0.1


def test_synonyms_of_the_corpus_file_count_at_once(published: Workspace) -> None:
    with closing(PublishedCorpus(published)) as serving:
        query = Query("hoist", preset="bm25", trace=True)
        assert serving.search(query).hits == []
        with published.file.open("a") as file:
            file.write("retrieval: {synonyms: [[hoist, steel winch]]}\n")
        result = serving.search(query)
        assert "steel winch" in result.hits[0].text
        assert "read as: hoist (steel winch)" in [step.note for step in result.trace or []]
        answer = serving.answer(AnswerQuery("Which screws hold the hoist?"))
        assert (answer.confidence or 0.0) >= (serving.answer(AnswerQuery(ASKED)).confidence or 0.0) - 0.1


def test_nouns_of_a_german_question_are_no_names(published: Workspace) -> None:
    with closing(PublishedCorpus(published)) as serving:
        nouns, plain = (
            serving.answer(AnswerQuery(words))
            for words in (
                "was ist die Zahl der Schrauben der steel winch?",
                "was ist die zahl der schrauben der steel winch?",
            )
        )
    assert nouns.confidence == pytest.approx(plain.confidence)
