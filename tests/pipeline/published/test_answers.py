"""Answers by a scripted model, over a published version: presets, streams, rounds, budgets and failures."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.models.languages import Py3LangId
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.doctor import diagnose
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult, AnswerStarted, TextDelta
from schemas.errors import RequestError, UserError
from schemas.filters import Filters, Modality
from schemas.retrieval import AnswerQuery, Query, Turn
from tasks.answering.answer_presets import packaged_answers
from tasks.answering.trace import Stopped
from tests.endpoint_server import Call, EndpointServer, answer, cut, hang, status
from tests.manuals import picture, write_manual
from tests.papers import write_paper_presets
from tests.pipeline.conftest import named_models, write_corpus
from tests.tiny_models import write_bert, write_clip

QUESTION = "How many bar does the steel winch take?"
SENTENCE = re.compile(r"[A-Z][a-z][^.\[\n]+(?=[.])")
FIGURE = re.compile(r"\[IMG-\d+\]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: EndpointServer) -> Path:
    """A version with vectors of pictures and rows of pages, and models to ask."""
    folder = tmp_path_factory.mktemp("answers")
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
    embeddings = {
        "parts": ["descriptions", "descriptions_and_texts", "joint"],
        "image": {"model": str(write_clip(folder / "models" / "clip")), "revision": "1", "batch": 2},
        "tables": "minilm",
    }
    options = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": model.url, "retries": 0}}
    pairs = str(write_bert(folder / "models" / "pairs", scores=True))
    models = {
        "llm": {**options, "price": {"input": 1e6, "output": 0, "call": 1}},
        "vlm": {**options, "kind": "vlm"},
        "reranker": {"kind": "cross_encoder", "model": pairs, "revision": "1"},
    }
    sections = named_models(embeddings, models) | {"retrieval": {"presets": str(write_paper_presets(folder)[0])}}
    file = write_corpus(folder, yaml.safe_dump(sections))
    captions = {"ocr": "none", "pages": "context", "captioner": "vlm"}
    file.write_text(file.read_text().replace("captions: {ocr: none}", f"captions: {json.dumps(captions)}"))
    model.replies = lambda _call: f"Coloured squares of the winch, seen from side {len(model.calls)}."
    assert refresh(open_workspace(str(file))).published
    return folder


@pytest.fixture
def corpus(folder: Path, model: EndpointServer) -> Iterator[PublishedCorpus]:
    model.replies = lambda _call: "It takes 21 bar [P1]."
    model.calls.clear()
    with closing(opened(folder)) as published:
        yield published


def opened(folder: Path, extra: str = "") -> PublishedCorpus:
    """Open the corpus with more in its file; by default with the papers' answer presets."""
    extra = extra or f"answer: {{presets: {folder / 'paper-answers'}}}\n"
    file = folder / "corpora" / f"manuals{abs(hash(extra))}.yaml"
    file.write_text(f"{(folder / 'corpora' / 'manuals.yaml').read_text()}{extra}")
    return PublishedCorpus(open_workspace(str(file)))


def copying(call: Call) -> str:
    """Write the first sentence of each passage, and behind it the figures that it names."""
    passages = re.split(r"(?m)^(?=\[P\d+\])", call.prompt)[1:]
    return "\n".join(
        f"{SENTENCE.findall(passage)[0]} [P{n}]. {' '.join(dict.fromkeys(FIGURE.findall(passage)))}"
        for n, passage in enumerate(passages, 1)
    )


def words(result: AnswerResult) -> list[str]:
    return [part.text for part in result.parts if part.type == "text"]


def figures(result: AnswerResult) -> list[str]:
    return [part.figure_id for part in result.parts if part.type == "figure"]


def test_an_answer_has_the_figures_of_what_the_model_copies_and_the_passages_that_it_cites(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = copying
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    figure_ids = {
        figure.figure_id for hit in corpus.search(Query(QUESTION, preset="diverse", k=4)).hits for figure in hit.figures
    }
    assert set(figures(result)) <= figure_ids
    assert figures(result), "the passages of these manuals hold figures"
    assert [part.type for part in result.parts][:2] == ["text", "figure"]
    assert (result.preset, result.model, result.note, result.abstained) == ("written", "tiny", "", False)
    assert {n for part in result.parts for n in part.citations} == {citation.n for citation in result.citations}
    assert all(
        citation.page_link and citation.pdf_link and citation.version == result.version for citation in result.citations
    )


@pytest.mark.parametrize("name", [*packaged_answers()])
def test_the_prompt_of_every_preset_holds_what_was_retrieved(
    corpus: PublishedCorpus, model: EndpointServer, name: str
) -> None:
    preset = packaged_answers()[name]
    filters = Filters(documents=["winch.pdf"], pages=[1]) if preset.context == "given" else Filters()
    result = corpus.answer(AnswerQuery(QUESTION, answer=name, filters=filters))
    assert result.preset == name
    if preset.model is None:
        assert model.calls == []
        return
    assert result.note == ""
    call = model.calls[-1]
    assert QUESTION in call.prompt
    if preset.context == "none":
        assert "bar." not in call.prompt
        return
    cited = {citation.evidence_id: citation for citation in result.citations}
    started = next(event for event in corpus.answer_events(AnswerQuery(QUESTION, answer=name, filters=filters)))
    assert isinstance(started, AnswerStarted)
    assert started.citations
    assert set(cited) <= {citation.evidence_id for citation in started.citations}
    if preset.max_images:
        assert 1 <= len(call.pictures) <= preset.max_images
    else:
        assert call.pictures == []
        assert "takes 21 bar" in call.prompt


def test_given_contexts_are_all_that_the_filters_name_and_nothing_is_retrieved(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    filters = Filters(documents=["winch.pdf"], pages=[2])
    result = corpus.answer(
        AnswerQuery(QUESTION, answer="bt-gold-both", filters=filters, settings={"max_images": 4}, trace=True)
    )
    assert [step.step for step in result.trace or []] == ["open", "answer"]
    assert "22 bar" in model.calls[-1].prompt
    assert "21 bar" not in model.calls[-1].prompt
    assert [part.page for part in result.parts if part.type == "figure"] == [2]
    corpus.answer(AnswerQuery(QUESTION, answer="bt-gold-text", filters=filters))
    assert model.calls[-1].pictures == []
    rows = corpus.search(Query(QUESTION, filters=Filters(modalities=[Modality.FIGURE]))).hits
    row_filters = Filters(evidence_ids=[rows[0].evidence_id])
    assert figures(corpus.answer(AnswerQuery(QUESTION, answer="bt-gold-images", filters=row_filters))) == [
        rows[0].figure_id
    ]
    with pytest.raises(RequestError, match="takes its context from the request"):
        corpus.answer(AnswerQuery(QUESTION, answer="bt-gold-text"))


def test_a_baseline_shows_one_figure_behind_the_text(corpus: PublishedCorpus, model: EndpointServer) -> None:
    model.replies = copying
    result = corpus.answer(AnswerQuery(QUESTION, answer="ilt-ocr-llm"))
    assert [part.type for part in result.parts][-1] == "figure"
    assert len(figures(result)) == 1


def test_words_come_as_they_are_written_and_no_name_of_a_figure_is_among_them(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = lambda call: answer(copying(call), pieces=list(copying(call)))
    events = list(corpus.answer_events(AnswerQuery(QUESTION, answer="written")))
    assert [event.event for event in events][:2] == ["start", "text"]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert "[" not in text
    assert "IMG" not in text
    assert _result(events).parts


@pytest.mark.parametrize(
    ("reaction", "why"),
    [
        (status(500, "overheated"), "overheated"),
        (status(401), "api_key_env"),
        (cut(after=3), "connection"),
        (answer(None, refusal="I can't help with that."), "refuses"),
        (answer("", finish_reason="length"), "max_tokens"),
    ],
)
def test_a_model_that_fails_leaves_the_extractive_answer_and_says_why(
    corpus: PublishedCorpus, model: EndpointServer, reaction: Any, why: str
) -> None:
    plain = corpus.answer(AnswerQuery(QUESTION))
    model.script(reaction)
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert (result.parts, result.model, result.preset) == (plain.parts, None, "written")
    assert result.note.startswith("answered without a model: ")
    assert why in result.note


def test_an_answer_inside_the_thought_is_read_from_there_and_only_what_passages_support(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    sentence = corpus.answer(AnswerQuery(QUESTION)).parts
    takes = next(part.text for part in sentence if part.type == "text" and "bar" in part.text)
    model.replies = lambda _call: f"<think>Hm, let me see. {takes} Or is it 98765 bar?"
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert result.model == "tiny"
    assert "reasoning" in result.note
    assert words(result), "the supported sentence is kept"
    assert not [text for text in words(result) if "98765" in text or "Hm" in text]
    assert result.citations


def test_a_number_that_no_passage_has_loses_its_citation_and_the_answer_is_not_sure(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = lambda _call: "It takes 98765 bar [P1]."
    result = corpus.answer(AnswerQuery(QUESTION, answer="written", settings={"grounded": False}))
    assert result.counts.unsupported == 1
    assert [part.citations for part in result.parts] == [[]]
    assert result.unsure
    assert result.confidence is not None
    grounded = corpus.answer(AnswerQuery(QUESTION, answer="written", trace=True))
    assert "no passage supports" in grounded.note
    searched = [step.step for step in grounded.trace or [] if step.step in ("retrieve: bm25", "answer", "extract")]
    assert searched == ["retrieve: bm25", "extract", "answer", "extract"], (
        "the passages shown are those that the model was given"
    )
    assert (grounded.parts, grounded.model, grounded.unsure) == (corpus.answer(AnswerQuery(QUESTION)).parts, None, True)


@pytest.mark.parametrize("first", ["<think>Hm, which one?", "[IMG-48213]"])
def test_a_reply_without_a_sentence_is_asked_once_more_for_the_answer_alone(
    corpus: PublishedCorpus, model: EndpointServer, first: str
) -> None:
    replies = iter([first, "It takes 21 bar [P1]."])
    model.replies = lambda _call: next(replies)
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert words(result) == ["It takes 21 bar."]
    assert (result.model, result.note) == ("tiny", "")
    assert [message["role"] for message in model.calls[-1].json["messages"]] == ["system", "user", "assistant", "user"]
    model.replies = lambda _call: first
    model.calls.clear()
    assert "wrote no" in corpus.answer(AnswerQuery(QUESTION, answer="written")).note
    assert len(model.calls) == 2


def test_figures_that_the_model_does_not_name_are_added_beside_the_sentences_they_stand_with(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = copying
    question = "Which picture shows the steel winch?"
    result = corpus.answer(AnswerQuery(question, answer="written"))
    added = [part for part in result.parts if part.type == "figure"]
    assert {part.added for part in added} == {True}
    assert {n for part in added for n in part.citations} <= {citation.n for citation in result.citations}
    assert not figures(corpus.answer(AnswerQuery(question, answer="written", settings={"grounded": False})))


def test_a_model_that_is_not_here_leaves_the_extractive_answer(folder: Path) -> None:
    file = folder / "corpora" / "manuals.yaml"
    absent = {"llm": {"kind": "local", "model": str(folder / "nowhere"), "revision": "1"}}
    options = yaml.safe_load(file.read_text())
    options["models"] |= absent
    absent_file = folder / "corpora" / "absent.yaml"
    absent_file.write_text(yaml.safe_dump(options | {"answer": {"model": "llm"}}))
    with closing(PublishedCorpus(open_workspace(str(absent_file)))) as corpus:
        result = corpus.answer(AnswerQuery(QUESTION))
    assert result.parts
    assert "not on this machine" in result.note


def test_a_model_that_says_that_nothing_answers_is_taken_at_its_word(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = lambda _call: "<think>Nothing fits.</think>NO ANSWER"
    result = corpus.answer(AnswerQuery(QUESTION, answer="written", settings={"grounded": False}))
    assert (result.abstained, result.parts, result.citations, result.note) == (True, [], [], "")
    unlike = corpus.answer(AnswerQuery("Who painted the Mona Lisa?", answer="written"))
    assert (unlike.abstained, unlike.parts) == (True, [])


def test_where_passages_seem_to_answer_they_are_shown_as_not_sure_although_the_model_says_that_none_does(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    model.replies = lambda _call: "NO ANSWER"
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert "the model says" in result.note
    assert (result.parts, result.unsure) == (corpus.answer(AnswerQuery(QUESTION)).parts, True)


def test_a_reply_that_is_cut_at_its_limit_is_shown_and_marked(corpus: PublishedCorpus, model: EndpointServer) -> None:
    model.script(answer("It takes 21 bar [P1]. And it", finish_reason="length"))
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert "limit of tokens" in result.note
    assert "21 bar" in " ".join(words(result))


def test_a_model_that_answers_under_another_name_is_shown_and_noted(corpus: PublishedCorpus, model: EndpointServer) -> None:
    model.script(answer("It takes 21 bar [P1].", model="/models/other.gguf"))
    result = corpus.answer(AnswerQuery(QUESTION, answer="written"))
    assert "21 bar" in " ".join(words(result))
    assert "'/models/other.gguf' answered" in result.note


def test_a_caller_that_stops_waiting_ends_the_call(corpus: PublishedCorpus, model: EndpointServer) -> None:
    model.script(hang())
    with pytest.raises(Stopped):
        list(corpus.answer_events(AnswerQuery(QUESTION, answer="written"), stopped=lambda: bool(model.calls)))
    model.wait_until_gone()


def test_three_rounds_judge_refine_and_keep_what_was_found(corpus: PublishedCorpus, model: EndpointServer) -> None:
    replies = iter(
        [
            '{"sufficient": false, "missing": "the pump", "query": "water pump bar"}',
            'So: {"sufficient": "no", "missing": "screws", "query": "screws of the water pump"}',
            "It takes 21 bar [P1].",
        ]
    )
    model.replies = lambda _call: next(replies)
    settings: dict[str, Any] = {"rounds": 3, "retrieval": "diverse", "passages": 2}
    result = corpus.answer(AnswerQuery(QUESTION, answer="omgqa-multi", settings=settings, trace=True))
    assert [search_round.query for search_round in result.rounds] == [
        QUESTION,
        "water pump bar",
        "screws of the water pump",
    ]
    assert [search_round.sufficient for search_round in result.rounds] == [False, False, None]
    assert [search_round.spent.calls for search_round in result.rounds] == [1, 1, 0]
    first = set(result.rounds[0].evidence_ids)
    started = {search_round.evidence_id for search_round in result.citations}
    assert started & first, "the answer cites what the first round found"
    union = {name for search_round in result.rounds for name in search_round.evidence_ids}
    assert len(union) > settings["passages"]
    assert len(re.findall(r"(?m)^\[P\d+\]", model.calls[-1].prompt)) == settings["passages"]
    assert result.spent.calls == 3
    assert result.spent.money == 3 + result.spent.input_tokens
    assert sum(step.step.startswith("sufficient?") for step in result.trace or []) == 2


def test_the_corpus_file_names_the_model_for_all_presets(folder: Path, model: EndpointServer) -> None:
    model.replies = lambda _call: "It takes 21 bar [P1]."
    with closing(opened(folder, "answer: {model: vlm, presets: ../paper-answers}\n")) as corpus:
        default = corpus.answer_presets()[0]
        assert (default.name, default.settings.model, default.missing) == ("written", "vlm", [])
        corpus.answer(AnswerQuery(QUESTION))
        assert [message["role"] for message in model.calls[-1].json["messages"]] == ["system", "user"]
        assert model.calls[-1].pictures == []
        corpus.answer(AnswerQuery(QUESTION, answer="bt-images-clip"))
        assert model.calls[-1].pictures
    with closing(opened(folder, "answer: {model: llm, presets: ../paper-answers}\n")) as corpus:
        chosen = {preset.name: preset.settings.model for preset in corpus.answer_presets()}
        assert (chosen["written"], chosen["bt-images-clip"]) == ("llm", "vlm"), (
            "a model that sees nothing replaces none that does"
        )


def test_presets_of_ones_own_stand_beside_the_packaged_ones(folder: Path, model: EndpointServer) -> None:
    preset_folder = folder / "corpora" / "ways"
    preset_folder.mkdir(exist_ok=True)
    (folder / "corpora" / "own.md").write_text("Answer in rhyme.\n===\n$passages\n\nQuestion: $question\n$pictures\n")
    (preset_folder / "short.yaml").write_text(
        "label: Short\nsentence: one passage\nmodel: llm\npassages: 1\nretrieval: bm25\nprompt: ./own.md\n"
    )
    with closing(opened(folder, "answer: {presets: ways, preset: short}\n")) as corpus:
        model.replies = lambda _call: "It takes 21 bar [P1]."
        assert corpus.answer(AnswerQuery(QUESTION)).preset == "short"
        assert re.findall(r"(?m)^\[P\d+\]", model.calls[-1].prompt) == ["[P1]"]
        assert model.calls[-1].prompt.startswith("Answer in rhyme.")


def test_a_picture_of_the_question_goes_to_the_model_and_to_a_search_that_takes_pictures(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    """The default preset searches by words alone, so the model alone looks at the picture."""
    settings = {"model": "vlm", "retrieval": None}
    result = corpus.answer(AnswerQuery(QUESTION, answer="written", settings=settings, picture=picture(5)))
    assert (result.note, len(model.calls[-1].pictures)) == ("", 1)
    assert "The first picture belongs to the question." in model.calls[-1].prompt
    with pytest.raises(RequestError, match="looks at no picture"):
        corpus.answer(AnswerQuery(QUESTION, answer="written", settings={"model": "llm"}, picture=picture(5)))
    seeing = {"retrieval": "bt-images-clip", "model": "llm", "sends": ["captions"]}
    corpus.answer(AnswerQuery(QUESTION, answer="written", settings=seeing, picture=picture(5)))
    assert model.calls[-1].pictures == [], "a model of kind llm sees none"
    assert "first picture" not in model.calls[-1].prompt


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"answer": "magic"}, "there is no preset 'magic'"),
        ({"answer": "written", "settings": {"temperature": 1}}, "answers have no setting 'temperature'"),
        ({"answer": "written", "settings": {"rounds": 9}}, "rounds"),
        ({"answer": "written", "settings": {"model": "gpt"}}, "models.gpt"),
        ({"answer": "bt-images-clip", "settings": {"model": "llm"}}, "kind vlm"),
        ({"answer": "written", "settings": {"prompt": "no-such"}}, "there is no prompt 'no-such'"),
    ],
)
def test_what_is_lacking_or_unknown_is_named(corpus: PublishedCorpus, options: dict[str, Any], says: str) -> None:
    with pytest.raises((RequestError, UserError), match=re.escape(says)):
        corpus.answer(AnswerQuery(QUESTION, **options))


def test_a_prompt_that_a_request_names_is_a_packaged_one(corpus: PublishedCorpus, folder: Path) -> None:
    """A path in a request would read files of the service's machine."""
    (folder / "secret.md").write_text("a secret: $question")
    for path in ("../secret.md", str(folder / "secret.md"), "./own.md"):
        with pytest.raises(RequestError, match="packaged"):
            corpus.answer(AnswerQuery(QUESTION, answer="written", settings={"prompt": path}))


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ("answer: {model: gpt}\n", "models.gpt"),
        ("answer: {preset: magic}\n", "answer.preset"),
    ],
)
def test_plan_and_doctor_say_what_is_wrong_with_answers(folder: Path, extra: str, says: str) -> None:
    with closing(opened(folder, extra)):
        file = folder / "corpora" / f"manuals{abs(hash(extra))}.yaml"
    with pytest.raises(UserError, match=re.escape(says)):
        plan(open_workspace(str(file)), "run")
    findings = {finding.subject: finding for finding in diagnose([str(file)]).findings}
    finding = next(
        candidate for subject, candidate in findings.items() if subject.endswith("answers") or says in candidate.message
    )
    assert not finding.ok
    assert says in finding.message


def test_a_follow_up_question_is_answered_about_the_subject_and_document_of_the_turn_before(
    corpus: PublishedCorpus, model: EndpointServer
) -> None:
    before = corpus.answer(AnswerQuery("How many bar does the steel winch take?"))
    history = [Turn(question="How many bar does the steel winch take?", evidence_ids=[before.citations[0].evidence_id])]
    result = corpus.answer(AnswerQuery("And what does it look like?", history=history, trace=True))
    assert result.follow_up is not None
    assert "steel winch" in result.follow_up.question
    assert result.follow_up.source == before.citations[0].source
    assert {citation.source for citation in result.citations} == {before.citations[0].source}
    assert "follow-up" in [step.step for step in result.trace or []]
    assert corpus.answer(AnswerQuery("Where is the water pump shown?", history=history)).follow_up is None
    model.replies = lambda call: (
        "What does the steel winch look like?" if "Last question" in call.prompt else "It takes 21 bar [P1]."
    )
    model_result = corpus.answer(AnswerQuery("And what does it look like?", history=history, answer="written"))
    assert model_result.follow_up is not None
    assert model_result.follow_up.question == "What does the steel winch look like?"
    assert model_result.spent.calls == 2
    assert "What does the steel winch look like?" in model.calls[-1].prompt


def test_a_misspelt_question_is_answered_as_the_right_one_and_says_how_it_was_read(corpus: PublishedCorpus) -> None:
    right = corpus.answer(AnswerQuery(QUESTION))
    misspelt = corpus.answer(AnswerQuery(QUESTION.replace("winch", "wincch"), trace=True))
    assert misspelt.note == f"read as: {QUESTION}"
    assert (misspelt.parts, misspelt.confidence) == (right.parts, right.confidence)
    assert right.note == ""


def test_a_question_in_a_language_that_nothing_here_knows_is_told_to_be(corpus: PublishedCorpus) -> None:
    note = "the question seems to be in de, and the documents are in en: ask in en"
    assert corpus.answer(AnswerQuery("Wie viele Schrauben hat die Winde aus Stahl?")).note == note
    assert corpus.answer(AnswerQuery("winch: 21 bar?")).note == ""


def test_the_detector_of_languages_is_not_loaded_for_words_that_rows_have(
    corpus: PublishedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    detected: list[str] = []

    def probabilities(_: Py3LangId, text: str) -> dict[str, float]:
        detected.append(text)
        return {"en": 1.0}

    monkeypatch.setattr(Py3LangId, "probabilities", probabilities)
    corpus.answer(AnswerQuery("The screws of the steel winch?"))
    assert detected == []
    corpus.answer(AnswerQuery(foreign := "Wie viele Schrauben hat die Winde aus Stahl?"))
    assert foreign in detected


def _result(events: list[AnswerEvent]) -> AnswerResult:
    assert isinstance(events[-1], AnswerFinished)
    return events[-1].result
