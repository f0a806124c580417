"""The ways to search of the papers, over one published version: each does what its paper asks for."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from backends.models.passage_scorers import CrossEncoder
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.doctor import diagnose
from schemas.errors import RequestError, UserError
from schemas.evidence import Hit, SearchResult, TraceStep
from schemas.models import ModelName
from schemas.retrieval import Query
from tasks.answering.presets import packaged
from tests import endpoint_server
from tests.endpoint_server import Call, EndpointServer, status
from tests.manuals import write_manual
from tests.papers import PAPERS, write_paper_presets
from tests.pipeline.conftest import named_models, write_corpus
from tests.published_files import figure_of
from tests.tiny_models import write_bert, write_clip, write_colqwen2, write_multimodal_reranker
from tests.versions import read_evidence

QUESTION = "How many bar does the steel winch take?"


def plan_steps(result: SearchResult) -> list[TraceStep]:
    """Return the steps of a trace that are the plan's."""
    return [step for step in result.trace or [] if step.step not in ("open", "filters", "hits")]


@pytest.fixture(scope="module")
def llm() -> Iterator[EndpointServer]:
    with endpoint_server.running() as server:
        yield server


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, llm: EndpointServer) -> Iterator[PublishedCorpus]:
    """A version with all spaces and rows of pages, and models to ask."""
    folder = tmp_path_factory.mktemp("presets")
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
    models = folder / "models"
    embeddings = {
        "image": {"model": str(write_clip(models / "clip")), "revision": "1", "batch": 2},
        "unified": "mean",
        "late": {"model": str(write_colqwen2(models / "late")), "revision": "1", "batch": 2},
        "tables": "minilm",
        "parts": ["captions", "descriptions", "descriptions_and_texts", "tagged_texts", "joint"],
    }
    options = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": llm.url, "retries": 0}}
    scorers = {
        "reranker": {"kind": "cross_encoder", "model": str(write_bert(models / "pairs", scores=True)), "revision": "1"},
        "sees": {"kind": "cross_encoder", "model": str(write_multimodal_reranker(models / "sees")), "revision": "1"},
    }
    generators = {"llm": options, "vlm": {**options, "kind": "vlm"}}
    sections = named_models(embeddings, {**generators, **scorers})
    file = write_corpus(folder, yaml.safe_dump(sections | {"retrieval": {"presets": str(write_paper_presets(folder)[0])}}))
    captions = {"ocr": "none", "pages": "context", "captioner": "vlm"}
    file.write_text(file.read_text().replace("captions: {ocr: none}", f"captions: {json.dumps(captions)}"))
    workspace = open_workspace(str(file))
    llm.replies = lambda _call: "A winch seen from a side, with its drum and its motor."
    assert refresh(workspace).published
    with closing(PublishedCorpus(workspace)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def answers(llm: EndpointServer) -> None:
    llm.replies = lambda _call: "2, 1"
    llm.calls.clear()


def kinds(hits: list[Hit]) -> list[str]:
    return [str(hit.modality) for hit in hits]


@pytest.mark.parametrize("name", [*packaged(), *PAPERS.retrieval])
def test_every_preset_finds_something_in_a_version_that_has_what_it_needs(corpus: PublishedCorpus, name: str) -> None:
    assert {preset.name: preset.missing for preset in corpus.presets()}[name] == []
    result = corpus.search(Query(QUESTION, preset=name, trace=True))
    assert result.preset == name
    assert result.hits or name == "tables", "these manuals have no tables"
    assert len({hit.evidence_id for hit in result.hits}) == len(result.hits) <= 10
    assert result.trace


def test_separate_stores_give_two_of_each_and_a_common_one_any_mixture(corpus: PublishedCorpus) -> None:
    for name in ("bt-clip-separate", "bt-summaries-separate"):
        assert kinds(corpus.search(Query(QUESTION, preset=name)).hits) == ["text", "text", "figure", "figure"]
    texts = corpus.search(Query("The steel winch takes bar", preset="bt-summaries-combined")).hits
    assert len(texts) == 4
    assert set(kinds(texts)) <= {"text", "figure"}
    assert set(kinds(corpus.search(Query(QUESTION, preset="bt-clip-combined", k=50)).hits)) == {"text", "figure"}
    for name in ("bt-images-clip", "bt-images-summaries"):
        assert kinds(corpus.search(Query(QUESTION, preset=name)).hits) == ["figure"] * 4


def test_one_figure_goes_with_the_texts_unless_none_is_near_enough(corpus: PublishedCorpus) -> None:
    result = corpus.search(Query(QUESTION, preset="ilt-captions", trace=True))
    assert kinds(result.hits).count("figure") == 1
    assert result.trace
    assert plan_steps(result)[1].asked.startswith(f"{QUESTION}\n"), "the caption is searched by the text's words, too"
    retrievers = [step.model_dump() for step in PAPERS.retrieval["ilt-captions"].retrieve]
    retrievers[1]["floor"] = 0.99
    assert "figure" not in kinds(corpus.search(Query(QUESTION, preset="ilt-captions", steps={"retrieve": retrievers})).hits)


def test_an_image_found_by_its_description_is_returned_as_the_image(corpus: PublishedCorpus) -> None:
    for hit in corpus.search(Query(QUESTION, preset="bt-images-summaries")).hits:
        assert hit.figure_id
        assert figure_of(corpus, hit.figure_id).startswith(b"\x89PNG")


def test_sections_are_picked_from_the_contents_and_read_in_the_order_of_the_choice(
    corpus: PublishedCorpus, llm: EndpointServer
) -> None:
    def pick(call: Call) -> str:
        lines = [line for line in call.prompt.splitlines() if line.strip().startswith("- ")]
        numbers = [line.rpartition("[")[2].rstrip("]") for line in lines if line.startswith("  ")]
        return f"9999, {numbers[-1]}, {numbers[0]}" if numbers else "1, 2"  # asked to order documents, too

    llm.replies = pick
    result = corpus.search(Query(QUESTION, preset="omgqa-generative", k=100))
    picked = list(dict.fromkeys((hit.doc_id, *hit.section_path[:1]) for hit in result.hits))
    assert len(picked) == 2, "a number that isn't a section's is ignored"
    near = corpus.search(Query(QUESTION, preset="omgqa-section-hybrid", k=100)).hits
    assert {hit.evidence_id for hit in near} == {hit.evidence_id for hit in result.hits}
    assert [hit.score for hit in near] == sorted((hit.score for hit in near), reverse=True)


@pytest.mark.parametrize(
    "reply", ["none", "I'm sorry, I can't help with that.", "0, 99999999999999999999", "```json\n{}\n```"]
)
def test_whatever_a_model_says_nothing_is_lost(corpus: PublishedCorpus, llm: EndpointServer, reply: str) -> None:
    llm.replies = lambda _call: reply
    steps: dict[str, Any] = {"rerank": [{"by": "llm"}]}
    plain, judged = corpus.search(Query(QUESTION)), corpus.search(Query(QUESTION, steps=steps, trace=True))
    assert [hit.evidence_id for hit in judged.hits] == [hit.evidence_id for hit in plain.hits]
    assert judged.trace
    assert "keep their order" in plan_steps(judged)[-1].note
    for name in ("omgqa-generative", "omgqa-section-hybrid"):
        result = corpus.search(Query(QUESTION, preset=name, trace=True))
        assert result.hits
        assert result.trace
        assert any("no section" in step.note for step in result.trace)


def test_a_model_that_orders_orders_and_the_others_stand_behind(corpus: PublishedCorpus, llm: EndpointServer) -> None:
    plain = [hit.evidence_id for hit in corpus.search(Query(QUESTION)).hits]
    llm.replies = lambda _call: "<think>1 isn't a good</think> 3, 1, 3, 77"
    result = corpus.search(Query(QUESTION, steps={"rerank": [{"by": "llm"}]}, trace=True))
    assert [hit.evidence_id for hit in result.hits] == [plain[2], plain[0], plain[1], *plain[3:]]
    assert result.trace
    assert plan_steps(result)[-1].input_tokens > 0


def test_a_model_that_sees_orders_by_the_pictures_of_the_candidates(corpus: PublishedCorpus, llm: EndpointServer) -> None:
    plain = corpus.search(Query(QUESTION, preset="bt-clip-separate")).hits
    llm.replies = lambda _call: "4, 1"
    steps: dict[str, Any] = {"rerank": [{"by": "vlm", "pool": 4}]}
    result = corpus.search(Query(QUESTION, preset="bt-clip-separate", steps=steps, trace=True))
    assert [hit.evidence_id for hit in result.hits] == [plain[index].evidence_id for index in (3, 0, 1, 2)]
    (call,) = llm.calls
    pictures = [figure_of(corpus, str(hit.figure_id)) for hit in plain if hit.figure_id]
    assert len(pictures) == 2, "texts have no picture"
    assert len(call.pictures) == 2
    for sent, stored in zip(call.pictures, pictures, strict=True):
        assert _greys(sent) == pytest.approx(_greys(stored), abs=12)
    assert _greys(pictures[0]) != pytest.approx(_greys(pictures[1]), abs=12)
    lines = [line for line in call.prompt.splitlines() if line.startswith("[")]
    assert ["(picture 1)" in line for line in lines] == [False, False, True, False]
    assert ["(picture 2)" in line for line in lines] == [False, False, False, True]
    assert QUESTION in call.prompt
    llm.replies = lambda _call: status(400, "this model takes no pictures")
    unchanged = corpus.search(Query(QUESTION, preset="bt-clip-separate", steps=steps, trace=True))
    assert [hit.evidence_id for hit in unchanged.hits] == [hit.evidence_id for hit in plain]
    assert unchanged.trace
    assert "this model takes no pictures" in plan_steps(unchanged)[-1].note


def _greys(picture: bytes) -> list[int]:
    """Return a picture's greys on a coarse grid."""
    with Image.open(io.BytesIO(picture)) as image:
        return [*image.convert("L").resize((8, 8)).tobytes()]


@pytest.mark.parametrize(
    "step",
    [
        {"by": "late"},
        {"by": "cross_encoder", "model": "reranker"},
        {"by": "cross_encoder", "model": "sees"},
    ],
)
def test_a_scorer_gives_a_permutation_of_its_pool(corpus: PublishedCorpus, step: dict[str, Any]) -> None:
    plain = corpus.search(Query(QUESTION, k=8)).hits
    hits = corpus.search(Query(QUESTION, k=8, steps={"rerank": [{**step, "pool": 8}]})).hits
    assert {hit.evidence_id for hit in hits} == {hit.evidence_id for hit in plain}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_multimodal_cross_encoder_scores_figures_by_their_pictures_too(corpus: PublishedCorpus, tmp_path: Path) -> None:
    rerank = [{"by": "cross_encoder", "model": "sees", "pool": 8}]
    hits = corpus.search(Query(QUESTION, k=8, steps={"rerank": rerank})).hits
    assert {"text", "figure"} <= set(kinds(hits))
    model = CrossEncoder(ModelName(str(write_multimodal_reranker(tmp_path)), "1", option="x"))
    words = ["\n".join([" › ".join([hit.title, *hit.section_path]), hit.text]) for hit in hits]
    pictures = [figure_of(corpus, hit.figure_id) if hit.figure_id else None for hit in hits]
    assert [hit.score for hit in hits] == pytest.approx(model.scores(QUESTION, words, pictures), abs=1e-5)
    blind = model.scores(QUESTION, words)
    differ = [abs(hit.score - score) > 1e-5 for hit, score in zip(hits, blind, strict=True)]
    assert differ == [hit.figure_id is not None for hit in hits]


@pytest.mark.parametrize(
    ("steps", "needed"),
    [
        ({"rewrite": {"model": "reranker"}}, "reranker is of another kind .* name one of kind llm or vlm"),
        ({"rerank": [{"by": "llm", "model": "sees"}]}, "sees is of another kind .* name one of kind llm or vlm"),
        ({"rerank": [{"by": "vlm", "model": "reranker"}]}, "reranker is of another kind .* name one of kind llm or vlm"),
        ({"rerank": [{"by": "late", "model": "llm"}]}, "llm is of another kind .* name one of kind cross_encoder or late"),
    ],
)
def test_a_model_of_the_wrong_kind_is_named(corpus: PublishedCorpus, steps: dict[str, Any], needed: str) -> None:
    with pytest.raises(RequestError, match=rf"models\.{needed}"):
        corpus.search(Query(QUESTION, steps=steps))


def test_the_packaged_models_own_tokens_find_the_text_that_says_the_same(corpus: PublishedCorpus) -> None:
    expected_hit = corpus.search(Query(QUESTION, preset="bt-text")).hits[1]
    best = corpus.search(
        Query(expected_hit.text, steps={"rerank": [{"by": "late", "pool": 50}]}, preset="hybrid", k=1)
    ).hits[0]
    assert best.evidence_id == expected_hit.evidence_id


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("winch pressure bar", "winch pressure bar"),
        ('"winch pressure"', "winch pressure"),
        ("", QUESTION),
        ("I'm sorry, but I can't help with that.", QUESTION),
        ("a\nb\nc", QUESTION),
        ("x " * 300, QUESTION),
        ("???", QUESTION),
    ],
)
def test_a_question_is_rewritten_unless_the_reply_is_no_query(
    corpus: PublishedCorpus, llm: EndpointServer, reply: str, query: str
) -> None:
    llm.replies = lambda _call: reply
    result = corpus.search(Query(QUESTION, steps={"rewrite": {}}, trace=True))
    assert result.trace
    assert plan_steps(result)[1].asked == query
    assert bool(plan_steps(result)[0].note) == (query == QUESTION)


def test_a_server_that_is_down_costs_its_step_and_not_the_search(corpus: PublishedCorpus, llm: EndpointServer) -> None:
    llm.replies = lambda _call: status(500)
    result = corpus.search(Query(QUESTION, preset="omgqa-modality-specific", trace=True))
    assert result.hits
    assert result.trace
    assert sum("500" in step.note for step in result.trace) == 3


def test_what_is_lacking_is_named_with_the_setting_that_brings_it(published: Workspace, tmp_path: Path) -> None:
    searches = write_paper_presets(tmp_path)[0]
    published.file.write_text(f"{published.file.read_text()}retrieval: {{presets: {searches}}}\n")
    published = open_workspace(str(published.file))
    with closing(PublishedCorpus(published)) as plain:
        missing = {preset.name: preset.missing for preset in plain.presets()}
        assert missing["hybrid"] == []
        assert missing["omgqa-generative"] == ["a model llm (set models.llm)"]
        assert missing["bt-clip-combined"] == ["vectors joint (set embeddings.parts)"]
        assert missing["article-captions"] == ["vectors descriptions (set embeddings.parts)"]
        assert missing["article-late"] == ["vectors late (set embeddings.late)", "rows of pages (set captions.pages)"]
        assert {preset.name for preset in plain.overview().presets} == {
            name for name, needs in missing.items() if not needs
        }
        with pytest.raises(RequestError, match=r"needs a model llm; .* as models\.llm in the corpus file"):
            plain.search(Query(QUESTION, preset="omgqa-generative"))
        with pytest.raises(RequestError, match=r"needs a model reranker"):
            plain.search(Query(QUESTION, preset="article-page-captions", steps={"retrieve": [{"by": "bm25"}]}))
        with pytest.raises(RequestError, match=r"needs rows of pages.*captions\.pages"):
            plain.search(Query(QUESTION, preset="article-page-captions"))


def test_a_folder_of_presets_is_read_when_it_changes_and_a_mistake_in_it_names_its_file(published: Workspace) -> None:
    folder = published.file.parent / "ways"
    folder.mkdir()
    published.file.write_text(f"{published.file.read_text()}retrieval: {{presets: ways, preset: mine}}\n")
    (folder / "mine.yaml").write_text("label: Mine\nsentence: by words\nretrieve: [{by: bm25}]\n")
    with closing(PublishedCorpus(open_workspace(str(published.file)))) as corpus:
        assert [preset.name for preset in corpus.overview().presets][:2] == ["mine", "pages"]
        assert corpus.search(Query(QUESTION)).preset == "mine"
        (folder / "mine.yaml").write_text("label: Mine\nsentence: by words\nretrieve: [{by: bm24}]\n")
        with pytest.raises(UserError, match=r"mine\.yaml: retrieve\.0: .*bm24"):
            corpus.search(Query(QUESTION))
        (folder / "mine.yaml").write_text("label: Mine\nsentence: by words\nretrieve: [{by: dense, space: pixels}]\n")
        with pytest.raises(UserError, match=r"mine\.yaml: space: there are no vectors 'pixels'; use text, tables"):
            corpus.search(Query(QUESTION))
        assert corpus.search(Query(QUESTION, preset="bm25")).preset == "bm25", "a packaged one is of no folder"
        (folder / "mine.yaml").write_text("name: other\nlabel: Mine\nsentence: by words\nretrieve: [{by: bm25}]\n")
        with pytest.raises(UserError, match=r"mine\.yaml: name: it is called by its file, mine; leave 'name' out"):
            corpus.search(Query(QUESTION))
        (folder / "mine.yaml").write_text("label: Mine\nsentence: by words\nretrieve: [{by: bm25}]\n")
        (folder / "mine.yaml").rename(folder / "mine.yml")
        assert corpus.search(Query(QUESTION)).preset == "mine"
        (folder / "mine.yaml").write_text("label: Mine\nsentence: by words\nretrieve: [{by: dense}]\n")
        with pytest.raises(UserError, match=r"mine\.yml: there is a mine\.yaml, too"):
            corpus.search(Query(QUESTION))
        (folder / "mine.yml").unlink()
        (folder / "mine.yaml").rename(folder / "Mine.yaml")
        with pytest.raises(UserError, match=r"Mine\.yaml: name: a preset is named by small letters"):
            corpus.search(Query(QUESTION))
        (folder / "Mine.yaml").rename(folder / "dense.yaml")
        with pytest.raises(UserError, match=r"dense\.yaml: dense is the name of a packaged preset"):
            corpus.search(Query(QUESTION))
        (folder / "dense.yaml").unlink()
        with pytest.raises(UserError, match=r"retrieval\.preset of the corpus file: there is no preset 'mine'; use one of"):
            corpus.search(Query(QUESTION))
        (folder / "gone.yaml").symlink_to("nowhere")
        with pytest.raises(UserError, match=r"gone\.yaml can't be read"):
            corpus.search(Query(QUESTION))


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("magic", r"retrieval\.preset of the corpus file: there is no preset 'magic'"),
        ("image", r"retrieval\.preset: image needs vectors image; set embeddings\.image, or name another preset"),
        ("described", r"described needs a model vlm; set models\.vlm,"),
        ("late", r"needs vectors late; set embeddings\.late,"),
    ],
)
def test_a_default_that_lacks_something_is_refused_before_anything_is_built(
    tmp_path: Path, preset: str, expected: str
) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    file = str(write_corpus(tmp_path, f"retrieval: {{preset: {preset}}}\n"))
    with pytest.raises(UserError, match=expected):
        plan(open_workspace(file), "plan")
    wrong = [finding for finding in diagnose([file]).findings if finding.subject.startswith("corpus ") and not finding.ok]
    assert [re.search(expected, finding.message) is not None for finding in wrong] == [True]


def test_a_version_whose_rows_show_no_picture_has_texts_alone_in_the_joint_space(corpus: PublishedCorpus) -> None:
    with corpus.opened(None) as opened:
        rows = read_evidence(opened.workspace.store, opened.version).to_pylist()
        vectors = opened.index.vectors([str(row["evidence_id"]) for row in rows], "joint")
        pictures = opened.index.vectors([str(row["evidence_id"]) for row in rows], "image")
    assert len(vectors) == len(rows)
    for name, vector in pictures.items():  # of another batch, whose last bits differ
        assert vectors[name] == pytest.approx(vector, abs=1e-6), "a picture has the vector of its own space"


def test_the_corpus_file_says_which_models_it_can_name(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, "models: {x: {kind: oracle, model: y, revision: '1'}}\n")
    with pytest.raises(UserError, match=r"models\.x\.kind: .*'oracle'"):
        open_workspace(str(file))
