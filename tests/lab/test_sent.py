"""What is sent is what is named: the request to the model, for each answer setting of the papers and of the product."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pymupdf
import pytest
import yaml
from PIL import Image

from evaluation.questions import Question
from lab.ask import NO_GOLD, Prepared, ask, prepare
from lab.experiment import Experiment, packaged_experiments, read_experiment
from lab.judging.metrics import METRICS as JUDGED
from lab.judging.metrics import Case
from lab.outcomes import Outcome
from lab.replies import Replies
from pipeline.corpus.workspace import open_workspace
from pipeline.published.gold import gold_evidence
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from schemas.corpus.operations import Spend
from schemas.errors import UserError
from schemas.evidence import Hit
from schemas.filters import Modality
from tasks.answering.answer_presets import packaged_answers
from tasks.answering.presets import packaged, steps_of
from tests import endpoint_server
from tests.endpoint_server import Call, EndpointServer
from tests.lab.judging.scripted_judge import ScriptedJudge, grade
from tests.manuals import write_long_table, write_manual
from tests.papers import PAPERS
from tests.pipeline.conftest import named_models, write_corpus
from tests.tiny_models import write_bert, write_clip
from tests.versions import read_evidence

QUESTION = "How many bar does the steel winch take, and which torque does Screw 3 take?"
DESCRIPTION = "Coloured squares of a machine"
"""How the captioner begins each description of a picture."""


@dataclass(frozen=True)
class Sent:
    """How many texts, captions and pictures a setting sends on this corpus; at least and at most where that depends on ranks."""

    texts: tuple[int, int] = (0, 0)
    captions: tuple[int, int] = (0, 0)
    pictures: tuple[int, int] = (0, 0)


NAMED = {
    "bt-baseline": Sent(),
    "bt-text": Sent(texts=(4, 4)),
    "bt-images-clip": Sent(pictures=(1, 1)),
    "bt-images-clip max_images=4": Sent(pictures=(4, 4)),
    "bt-images-summaries": Sent(pictures=(1, 1)),
    "bt-images-summaries max_images=4": Sent(pictures=(4, 4)),
    "bt-clip-separate": Sent(texts=(2, 2), pictures=(1, 1)),
    "bt-clip-separate max_images=4": Sent(texts=(2, 2), pictures=(2, 2)),
    "bt-summaries-separate": Sent(texts=(2, 2), pictures=(1, 1)),
    "bt-summaries-separate max_images=4": Sent(texts=(2, 2), pictures=(2, 2)),
    "bt-clip-combined max_images=4": Sent(texts=(0, 4), pictures=(0, 4)),
    "bt-summaries-combined max_images=4": Sent(texts=(0, 4), pictures=(0, 4)),
    "bt-gold-text": Sent(texts=(2, 20)),
    "bt-gold-images": Sent(pictures=(1, 1)),
    "bt-gold-images max_images=4": Sent(pictures=(2, 4)),
    "bt-gold-both max_images=4": Sent(texts=(2, 20), pictures=(2, 4)),
    "article-a": Sent(pictures=(4, 4)),
    "article-b": Sent(pictures=(1, 4)),
    "ilt": Sent(texts=(4, 4)),
    "ilt-vlm-captions": Sent(texts=(3, 3)),
    "written": Sent(texts=(0, 4), captions=(0, 4)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[EndpointServer]:
    with endpoint_server.running() as running:
        yield running


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, server: EndpointServer) -> OpenVersion:
    """A version with texts, a table, figures with descriptions, and rows of pages."""
    folder = tmp_path_factory.mktemp("sent")
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
    write_long_table(folder / "pdfs" / "torques.pdf")
    with pymupdf.open() as bare:
        bare.new_page().insert_text((72, 90), "The crane is oiled each month, and its hook is greased for life.")
        bare.save(folder / "pdfs" / "crane.pdf")
    clip = str(write_clip(folder / "models" / "clip"))
    embeddings = {
        "parts": ["descriptions", "descriptions_and_texts", "tagged_texts", "joint"],
        "image": {"model": clip, "revision": "1", "batch": 2},
        "tables": "minilm",
    }
    options = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": server.url, "retries": 0}}
    pairs = str(write_bert(folder / "models" / "pairs", scores=True))
    models = {
        "llm": options,
        "vlm": {**options, "kind": "vlm", "prompt": "figure-summary-paper"},
        "pages": {**options, "kind": "vlm"},
        "reranker": {"kind": "cross_encoder", "model": pairs, "revision": "1"},
    }
    file = write_corpus(folder, yaml.safe_dump(named_models(embeddings, models)))
    captions = {"ocr": "none", "pages": "pages", "captioner": "vlm"}
    file.write_text(file.read_text().replace("captions: {ocr: none}", f"captions: {json.dumps(captions)}"))
    server.replies = lambda _call: f"{DESCRIPTION}, seen from side {len(server.calls)}."
    workspace = open_workspace(str(file))
    assert refresh(workspace).published
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return open_version(workspace, pointer.version)


def experiment(*names: str) -> Experiment:
    """Return an experiment of answer presets, each perhaps with a setting behind it."""
    grids = []
    for name in names:
        preset, _, setting = name.partition(" ")
        key, _, number = setting.partition("=")
        grids.append({"presets": [preset], "settings": {key: [int(number)]} if key else {}})
    return read_experiment("sent.yaml", {"label": "Sent", "answers": grids})


def asked(opened: OpenVersion, name: str, **question: Any) -> tuple[Outcome, Prepared]:
    """Ask a question of one system by the path of experiments."""
    run = experiment(name)
    replies = Replies(opened.workspace, Spend())
    recorded = replace(opened, record=replies.record)
    system = prepare(recorded, run, run.systems[0])
    fields = {"documents": ["winch.pdf", "torques.pdf"]} | question
    pages = [{"doc": "winch.pdf", "page": 1}, {"doc": "winch.pdf", "page": 2}, {"doc": "torques.pdf", "page": 1}]
    (gold,) = gold_evidence(opened, [Question.model_validate({"id": "1", "question": QUESTION, "pages": pages} | fields)])
    return ask(recorded, run, system, gold, opened.question(QUESTION), 0, replies), system


@pytest.fixture
def call(server: EndpointServer) -> list[Call]:
    server.replies = lambda _call: f"It takes 21 bar [P1]. {len(server.calls)}"
    server.calls.clear()
    return server.calls


def rows(opened: OpenVersion) -> list[Hit]:
    names = [str(row["evidence_id"]) for row in read_evidence(opened.workspace.store, opened.version).to_pylist()]
    return opened.hits([(name, 1.0) for name in names])


def greys(encoded: bytes) -> tuple[int, ...]:
    with Image.open(io.BytesIO(encoded)) as image:
        return tuple(value // 32 for value in image.convert("L").resize((8, 8)).tobytes())


def is_of(sent: bytes, stored: bytes) -> bool:
    """Whether a picture that was sent, perhaps in another size and format, is a stored one."""
    return (
        sum(abs(sent_grey - stored_grey) for sent_grey, stored_grey in zip(greys(sent), greys(stored), strict=True)) <= 20
    )


def test_every_answer_setting_of_the_papers_is_tested_here() -> None:
    tested = {name.partition(" ")[0] for name in NAMED}
    assert {*PAPERS.answers, "written"} - tested == {"ilt-ocr-llm", "omgqa-single", "omgqa-multi"}, "tested below"


@pytest.mark.parametrize("name", NAMED)
def test_the_request_holds_what_the_setting_names_and_nothing_else(
    opened: OpenVersion, call: list[Call], name: str
) -> None:
    outcome, system = asked(opened, name)
    assert outcome.failure == ""
    sent, (request,) = NAMED[name], call
    words = " ".join(request.prompt.split())
    assert QUESTION in words

    passages = dict(re.findall(r"\[P(\d+)\][^\n]*:\n<passage>\n(.*?)\n</passage>", request.prompt, re.DOTALL))
    of_figures = [number for number, hit in enumerate(outcome.context, 1) if hit.figure_id is not None]
    captions = [number for number in of_figures if str(number) in passages]
    assert sent.captions[0] <= len(captions) <= sent.captions[1]
    assert sent.texts[0] <= len(passages) - len(captions) <= sent.texts[1]
    assert {*map(int, passages)} | {*of_figures} == {*range(1, len(outcome.context) + 1)}, "no passage is missing or added"
    for row in rows(opened):
        row_text = " ".join(row.text.split())
        if (
            row.evidence_id in outcome.words
            or not row_text
            # A passage stands below the title of its document, which may be its first words.
            or any(row_text in " ".join(f"{hit.title} {hit.text}".split()) for hit in outcome.context)
        ):
            continue
        assert row_text not in words, f"a {row.modality} that wasn't retrieved is sent"
    if not captions:
        assert DESCRIPTION not in words, "descriptions are sent where a setting names captions alone"
    if not passages:
        assert "seen from side" not in words, "a caption is sent with a picture alone"
        assert "Service of the" not in words, "a title of a section is sent with a picture alone"

    assert sent.pictures[0] <= len(request.pictures) <= sent.pictures[1]
    assert len(request.pictures) == len(outcome.pictures)
    retrieved = {hit.figure_id for hit in outcome.context}
    assert set(outcome.pictures) <= retrieved, "a picture that nobody retrieved is sent"
    for picture, figure_id in zip(request.pictures, outcome.pictures, strict=True):
        assert is_of(picture, opened.picture(figure_id))
    assert system.answer is not None
    assert len(outcome.context) <= system.answer.passages


def test_what_a_model_wrote_is_judged_as_written_and_what_inset_makes_of_it_stands_beside(
    opened: OpenVersion, server: EndpointServer
) -> None:
    reply = "It takes 21 bar [P1]. The crane flies to Mars at 999 bar [P1]. Screw 3 takes 3 Nm."
    server.replies = lambda _call: reply
    outcome, _ = asked(opened, "bt-text")
    assert outcome.reply == reply
    assert outcome.answer is not None
    assert outcome.checked is not None
    written = {part.text: part.citations for part in outcome.answer.parts if part.type == "text"}
    assert written == {"It takes 21 bar.": [1], "The crane flies to Mars at 999 bar.": [1], "Screw 3 takes 3 Nm.": []}
    checked = {part.text: part.citations for part in outcome.checked.parts if part.type == "text"}
    assert checked["The crane flies to Mars at 999 bar."] == []
    judge = ScriptedJudge(lambda _prompt, _pictures: grade(True))
    JUDGED["citation_completeness"].grade(Case(Question(id="1", question=QUESTION), outcome, judge, None))
    (request,) = judge.requests
    assert reply in request.messages[0].text


@pytest.mark.parametrize("reply", ["It takes 21 bar [P1].", "NO ANSWER"])
def test_the_figure_of_a_baseline_of_captions_stands_beside_any_answer(
    opened: OpenVersion, server: EndpointServer, reply: str
) -> None:
    server.replies = lambda _call: reply
    outcome, _ = asked(opened, "ilt-vlm-captions")
    assert len(outcome.figures) == 1


def test_one_model_answers_in_all_settings_of_a_table() -> None:
    for name, models in (("beyond-text", {"vlm"}), ("omg-qa", {"llm"}), ("article", {"vlm"})):
        systems = [system for system in packaged_experiments()[name].systems if system.kind == "answer"]
        assert {PAPERS.answers[system.preset].model for system in systems} == models
    assert packaged_experiments()["beyond-text"].use_parameters == "paper"


def test_stores_of_texts_hold_tables(opened: OpenVersion) -> None:
    for name in ("bt-text", "bt-clip-separate", "bt-summaries-separate", "bt-clip-combined", "bt-summaries-combined"):
        filters = [step.filters.modalities for step in PAPERS.retrieval[name].retrieve]
        assert {Modality.TEXT, Modality.TABLE} <= {modality for listed in filters for modality in listed}
    outcome, _ = asked(opened, "bt-text")
    assert {hit.modality for hit in outcome.context} == {Modality.TEXT, Modality.TABLE}
    assert any("Screw 3 | 3 Nm" in hit.text for hit in outcome.context)


@pytest.mark.parametrize("name", ["omgqa-single passages=3", "omgqa-multi passages=3"])
def test_rounds_send_as_many_rows_as_the_setting_names(opened: OpenVersion, server: EndpointServer, name: str) -> None:
    queries = iter(["water pump screws", "torque of screws"])

    def reply(call: Call) -> str:
        if "sufficient" in call.prompt:
            return json.dumps({"sufficient": False, "missing": "more", "query": next(queries)})
        return "It takes 21 bar [P1]."

    server.replies = reply
    server.calls.clear()
    outcome, _ = asked(opened, name)
    assert outcome.failure == ""
    request = server.calls[-1]
    assert len(re.findall(r"(?m)^\[P\d+\]", request.prompt)) == len(outcome.context) == 3
    assert request.pictures == []


def test_a_baseline_of_captions_runs_on_a_corpus_with_its_captioner_alone(opened: OpenVersion) -> None:
    papers = packaged_experiments()["ilt"]
    systems = {system.id: system for system in papers.systems}
    assert prepare(opened, papers, systems["answer ilt-vlm-captions"]).answer is not None
    with pytest.raises(Exception, match=r"needs descriptions of figures by a captioner of kind llm \(set captions"):
        prepare(opened, papers, systems["answer ilt-ocr-llm"])
    assert [step.space for step in PAPERS.retrieval["ilt-captions"].retrieve if step.by == "dense"] == [
        "text",
        "descriptions",
    ]


def test_the_summariser_of_beyond_text_is_its_generator(opened: OpenVersion) -> None:
    papers, corpus = packaged_experiments()["beyond-text"], opened.settings()
    models = corpus.models | {"other": corpus.models["vlm"].model_copy(update={"revision": "2"})}
    captions = corpus.captions.model_copy(update={"captioner": "other"})
    changed = corpus.model_copy(update={"models": models, "captions": captions})
    altered = replace(opened, settings=lambda: changed)
    systems = [system for system in papers.systems if "summaries" in system.preset]
    assert systems
    for system in systems:
        assert prepare(opened, papers, system).answer is not None
        with pytest.raises(UserError, match="needs descriptions of figures by the model that answers, vlm"):
            prepare(altered, papers, system)


def test_a_question_whose_gold_pages_have_no_figure_stays_in_the_setting_of_figures(
    opened: OpenVersion, call: list[Call]
) -> None:
    bare = [{"doc": "crane.pdf", "page": 1}]
    outcome, _ = asked(opened, "bt-gold-images", pages=bare)
    (request,) = call
    assert (outcome.failure, outcome.context, request.pictures) == ("", [], [])
    assert "Image:" not in request.prompt
    assert outcome.answer is not None
    assert asked(opened, "bt-gold-text", pages=bare)[0].failure == ""
    assert asked(opened, "bt-gold-text", pages=[])[0].failure == NO_GOLD


def test_presets_differ_from_every_other() -> None:
    searches = [json.dumps(steps_of(preset), sort_keys=True) for preset in {**packaged(), **PAPERS.retrieval}.values()]
    assert len(set(searches)) == len(searches)
    excluded = {"name", "label", "sentence", "source"}
    answers = [
        preset.model_dump_json(exclude=excluded, exclude_none=True)
        for preset in {**packaged_answers(), **PAPERS.answers}.values()
    ]
    assert len(set(answers)) == len(answers)
