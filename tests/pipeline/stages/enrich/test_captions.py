"""Models and people describe figures, through a whole refresh."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.operations.corrections import describe_figures
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import StageNote, read_notes
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.prune import prune
from schemas.errors import UserError
from schemas.parquet import from_parquet
from schemas.reports import RefreshResult
from schemas.stages import Stage
from tests.endpoint_server import Call, EndpointServer, status
from tests.manuals import write_manual
from tests.versions import read_evidence
from tests.waiting import wait_for

Corpus = Callable[..., Workspace]


@pytest.fixture
def corpus(published: Workspace, endpoint: EndpointServer) -> Corpus:
    """Open the published corpus with a captioner that is a model, ``vlm``, and other settings as they are given."""

    def opened(captions: dict[str, Any] | None = None, budget: dict[str, Any] | None = None, **model: Any) -> Workspace:
        endpoint_options = {"url": endpoint.url, "concurrency": 2, "retries": 0}
        described = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": endpoint_options} | model
        file = yaml.safe_load(published.file.read_text())
        file["models"] = {"vlm": described}
        file["captions"] = {"ocr": "none", "captioner": "vlm"} | (captions or {})
        file["budget"] = budget or {}
        published.file.write_text(yaml.safe_dump(file))
        return open_workspace(str(published.file))

    endpoint.replies = _by_its_caption
    return opened


def _by_its_caption(call: Call) -> str:
    """Say of a figure what no document says, and which one it is."""
    assert call.picture
    caption = next(line for line in call.prompt.splitlines() if line.startswith("Caption: "))
    return f"A photograph on a bench, taken for {caption.partition(': ')[2]}, lit from the left and a little blurred."


def _figures(workspace: Workspace, result: RefreshResult) -> dict[str, dict[str, Any]]:
    """Return the rows of figures by caption."""
    rows = read_evidence(workspace.store, str(result.version)).to_pylist()
    return {row["caption"]: row for row in rows if row["modality"] == "figure"}


def _notes(workspace: Workspace, result: RefreshResult) -> dict[Stage, StageNote]:
    return read_notes(workspace.store, str(result.version))


def test_a_model_describes_every_figure_once_and_nothing_else_is_done_again(
    corpus: Corpus, endpoint: EndpointServer
) -> None:
    workspace = corpus(price={"input": 2.0, "output": 8.0})
    expected = plan(workspace, "test").summary.captions["vlm"]
    assert (expected.items, expected.estimated, expected.affordable) == (4, 0, 4)
    result = refresh(workspace)
    assert result.published
    figures = _figures(workspace, result)
    assert len(figures) == len(endpoint.calls) == 4
    for caption, row in figures.items():
        assert f"taken for {caption}," in row["description"]
        assert row["text"].splitlines()[:2] == [caption, row["description"]]
        assert (row["described_by"], row["flags"]) == ("vlm", [])
    assert all("Section: " in prompt and "has" in prompt for prompt in endpoint.prompts)
    notes = _notes(workspace, result)
    assert (notes[Stage.PARSE].counts["parsed"], notes[Stage.ENRICH].counts["structured"]) == (0, 0)
    assert notes[Stage.ENRICH].counts["embedded"] == notes[Stage.ENRICH].counts["described"] == 4
    manifest = read_manifest(workspace.store, str(result.version))
    assert manifest is not None
    spent = manifest.spent["vlm"]
    assert (spent.calls, spent.input_tokens > 400, spent.output_tokens > 40) == (4, True, True)
    assert spent.money == pytest.approx((2 * spent.input_tokens + 8 * spent.output_tokens) / 1e6)
    again = refresh(open_workspace(str(workspace.file)))
    assert (again.version, len(endpoint.calls)) == (result.version, 4)


def test_an_answer_is_kept_while_the_model_is_at_the_next(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus()

    def last_waits_for_the_others(call: Call) -> str:
        if len(endpoint.calls) == 4:
            wait_for(lambda: _kept(workspace) == 3, "three answers in the store")
        return _by_its_caption(call)

    endpoint.replies = last_waits_for_the_others
    assert refresh(workspace).published
    assert _kept(workspace) == 4


def _kept(workspace: Workspace) -> int:
    names = workspace.store.names("captions")
    return sum(from_parquet(workspace.store.get(name)).num_rows for name in names)


def test_another_prompt_asks_again_and_structures_nothing(corpus: Corpus, endpoint: EndpointServer) -> None:
    refresh(corpus())
    prompt = Path(corpus().file).parent / "ours.md"
    prompt.write_text("Say what the picture shows.\nCaption: $caption\n")
    workspace = corpus(prompt="ours.md")
    result = refresh(workspace)
    assert result.published
    assert len(endpoint.calls) == 8
    assert endpoint.prompts[-1].startswith("Say what the picture shows.")
    enriched = _notes(workspace, result)[Stage.ENRICH].counts
    assert (enriched["structured"], enriched["described"], enriched["embedded"]) == (0, 4, 0)  # the same words


def test_one_that_fails_falls_back_and_the_others_keep_their_own(corpus: Corpus, endpoint: EndpointServer) -> None:
    def refusing(call: Call) -> Any:
        return status(400, "bad picture") if "Figure 1: The water pump" in call.prompt else _by_its_caption(call)

    endpoint.replies = refusing
    workspace = corpus()
    result = refresh(workspace)
    assert result.published
    for caption, row in _figures(workspace, result).items():
        if caption.startswith("Figure 1: The water pump"):
            assert (row["description"], row["described_by"], row["flags"]) == (None, "context", ["failed"])
        else:
            assert f"taken for {caption}," in row["description"]
    assert refresh(workspace).version == result.version
    assert len(endpoint.calls) == 4  # what a model can't describe is not asked, and paid for, again


def test_what_a_budget_leaves_is_described_by_the_next_refresh(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus(budget={"calls": 3})
    assert plan(workspace, "test").summary.captions["vlm"].affordable == 3
    result = refresh(workspace)
    assert result.published
    flags = [row["flags"] for row in _figures(workspace, result).values()]
    assert sorted(flags) == [[], [], [], ["not_described"]]
    assert [failure.code for failure in result.failures] == ["over_budget"]
    planned = plan(workspace, "test")
    assert (planned.outcome, planned.summary.captions["vlm"].items) == ("build", 1)
    full = refresh(workspace)
    assert full.published
    assert full.version != result.version
    assert not full.failures
    assert {row["described_by"] for row in _figures(workspace, full).values()} == {"vlm"}
    assert len(endpoint.calls) == 4
    assert refresh(workspace).version == full.version


def test_tokens_and_money_end_a_refresh_before_they_are_spent(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus(budget={"money": 0.02}, price={"call": 0.009})
    refresh(workspace)
    assert len(endpoint.calls) == 2
    refresh(corpus(budget={"tokens": 100}, price={"call": 0.009}))
    assert len(endpoint.calls) == 2


def test_a_dead_endpoint_costs_descriptions_and_no_version(corpus: Corpus, endpoint: EndpointServer) -> None:
    endpoint.replies = lambda _call: status(500)
    workspace = corpus()
    result = refresh(workspace)
    assert result.published
    assert {row["described_by"] for row in _figures(workspace, result).values()} == {"context"}
    assert {failure.code for failure in result.failures} == {"model_unreachable"}
    assert {failure.source for failure in result.failures} == {"pump.pdf", "winch.pdf"}
    endpoint.replies = _by_its_caption
    full = refresh(workspace)
    assert full.published
    assert not full.failures
    assert {row["described_by"] for row in _figures(workspace, full).values()} == {"vlm"}


def test_a_key_that_is_refused_ends_the_refresh_with_its_setting(corpus: Corpus, endpoint: EndpointServer) -> None:
    endpoint.replies = lambda _call: status(401)
    with pytest.raises(UserError, match=r"models\.vlm\.endpoint\.api_key_env"):
        refresh(corpus())


def test_a_captioner_of_words_isnt_asked_where_there_are_none(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus(kind="llm")
    result = refresh(workspace)
    assert result.published
    assert not endpoint.calls
    assert {tuple(row["flags"]) for row in _figures(workspace, result).values()} == {("no_text",)}


def test_a_reply_can_forge_no_figure(corpus: Corpus, endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: f"{_by_its_caption(call)} It stands at <image:12345678.png> in the text."
    workspace = corpus()
    result = refresh(workspace)
    assert result.published
    assert all("<image:" not in row["text"] for row in _figures(workspace, result).values())


def test_the_same_picture_in_two_documents_is_described_once(
    corpus: Corpus, endpoint: EndpointServer, tmp_path: Path
) -> None:
    workspace = corpus()
    refresh(workspace)
    write_manual(tmp_path / "pdfs" / "second.pdf", "second pump", seed=1)
    result = refresh(workspace)
    assert result.published
    assert len(endpoint.calls) == 4
    rows = _figures(workspace, result)
    assert len(rows) == 6
    assert len({row["description"] for row in rows.values()}) == 4


@pytest.mark.slow
def test_what_was_paid_for_outlives_the_version_and_goes_when_nobody_wants_it(
    corpus: Corpus, endpoint: EndpointServer, tmp_path: Path
) -> None:
    workspace = corpus()
    refresh(workspace)
    (tmp_path / "pdfs" / "winch.pdf").unlink()
    refresh(workspace)
    prune(workspace, dry_run=False)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    assert refresh(workspace).published
    assert len(endpoint.calls) == 4
    assert workspace.store.names("captions")
    context = corpus({"captioner": "context"})
    for _ in range(2):
        pointer = read_pointer(context.store)
        result = refresh(context)
        assert pointer is not None
        assert result.published
        (tmp_path / "pdfs" / "winch.pdf").write_bytes((tmp_path / "pdfs" / "pump.pdf").read_bytes())
    # As long as a version may be gone back to that was made of them, they stay.
    assert context.store.names("captions")


@pytest.mark.slow
def test_a_persons_words_win_whatever_a_model_says(corpus: Corpus, endpoint: EndpointServer) -> None:
    result = refresh(corpus())
    rows = _figures(corpus(), result)
    (caption, row), *_ = rows.items()
    ours = "The inlet, with the blue handle that turns a quarter."
    workspace = corpus()
    describe_figures(workspace.store, "manuals", {row["figure_id"][:12]: ours}, by="ada")
    corrected = _figures(workspace, refresh(workspace))
    assert (corrected[caption]["description"], corrected[caption]["described_by"]) == (ours, "person")
    assert ours in corrected[caption]["text"]
    assert all(figure_row["described_by"] == "vlm" for name, figure_row in corrected.items() if name != caption)
    assert len(endpoint.calls) == 4
    describe_figures(workspace.store, "manuals", {row["figure_id"][:12]: "Another handle, red."}, by="ada")
    assert _figures(workspace, refresh(workspace))[caption]["description"] == "Another handle, red."


@pytest.mark.parametrize(
    ("reply", "flag"),
    [
        ("I'm sorry, but I can't help with that image.", "refusal"),
        ("the pump the pump the pump the pump " * 20, "repetition"),
        ("", "failed"),
    ],
)
def test_a_reply_that_is_no_description_is_not_used(
    corpus: Corpus, endpoint: EndpointServer, reply: str, flag: str
) -> None:
    endpoint.replies = lambda _call: reply
    workspace = corpus()
    rows = _figures(workspace, refresh(workspace))
    assert {(row["description"], row["described_by"]) for row in rows.values()} == {(None, "context")}
    assert all(flag in row["flags"] for row in rows.values())
