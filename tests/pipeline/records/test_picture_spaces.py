"""Spaces of pictures: a corpus file names their models, and the same refresh embeds, checks, builds and searches them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import yaml

from backends.models import clip, late_interaction
from backends.models.registry import IMAGE_EMBEDDERS, LATE_EMBEDDERS
from backends.stores.object_store import open_store
from pipeline.corpus.models import loaded
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.collection import SpaceVectors, documents_of, open_vectors, passages
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from schemas.errors import ContractError, RequestError, UserError
from schemas.ids import figure_file, key
from schemas.models import Embeds, ModelName
from schemas.reports import RefreshResult
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from schemas.versions import ModelCard
from tasks.enriching.spaces import IMAGE, LATE, UNIFIED, Space
from tasks.versions.row_rules import rows_off
from tests.manuals import picture, write_manual
from tests.pipeline.conftest import named_models, write_corpus
from tests.tiny_models import CLIP_DIMENSION, LATE_DIMENSION, write_clip, write_colqwen2
from tests.versions import ALWAYS, read_evidence

QUESTION = "the steel winch seen from a side"


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="session")
def spaces_wanted(clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return {
        "late": {"model": str(write_colqwen2(tmp_path_factory.mktemp("models") / "late")), "revision": "1", "batch": 2},
        "image": {"model": str(clip_folder), "revision": "1", "batch": 2},
        "unified": "concatenation",
        "tables": "minilm",
    }


def write(folder: Path, embeddings: dict[str, object], extra: str = "") -> str:
    return str(write_corpus(folder, f"{yaml.safe_dump(named_models(embeddings))}{extra}"))


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory, spaces_wanted: dict[str, object]
) -> tuple[Workspace, RefreshResult]:
    folder = tmp_path_factory.mktemp("pictures")
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
    workspace = open_workspace(write(folder, spaces_wanted))
    return workspace, refresh(workspace)


def figures(workspace: Workspace, version: str) -> dict[str, dict[str, object]]:
    rows: Iterable[dict[str, object]] = read_evidence(workspace.store, version).to_pylist()
    return {str(row["evidence_id"]): row for row in rows if row["modality"] == "figure"}


def test_figures_and_they_alone_are_found_by_their_pictures(made_once: tuple[Workspace, RefreshResult]) -> None:
    workspace, result = made_once
    assert result.published
    version = str(result.version)
    rows = figures(workspace, version)
    assert len(rows) == 4
    for space in ("image", "unified", "late"):
        assert workspace.index(version).vectors(list(rows), space).keys() == rows.keys()
        assert any(gate.gate == f"rows: a vector {space} has length 1" and gate.passed for gate in result.gates)
    options = workspace.corpus.embedding_models
    image = IMAGE_EMBEDDERS.find(IMAGE.model(options) or ModelName("")).load(1)
    unified = IMAGE_EMBEDDERS.find(UNIFIED.model(options) or ModelName("")).load(1)
    late = LATE_EMBEDDERS.find(LATE.model(options) or ModelName("")).load(1)
    published = PublishedCorpus(workspace)
    try:
        hits_by_mode = {
            mode: published.search(Query(QUESTION, preset=mode, k=50)).hits for mode in ("image", "unified", "late")
        }
        assert {"image", "late", "tables", "unified", *ALWAYS} <= {preset.name for preset in published.overview().presets}
        assert published.search(Query(QUESTION, preset="tables")).hits == [], "these manuals have no tables"
    finally:
        published.close()
    for mode, hits in hits_by_mode.items():
        assert {hit.evidence_id for hit in hits} == rows.keys()
        for hit in hits:
            row = rows[hit.evidence_id]
            picture = workspace.store.get(figure_file(str(row["figure_id"])))
            if mode == "image":
                near = image.embed_query_picture(picture) @ image.embed_query(QUESTION)
            elif mode == "late":
                near = (late.embed_query(QUESTION) @ late.embed_query_picture(picture).T).max(axis=1).sum()
            else:
                text = str(row["description"] or row["caption"] or row["text"])
                near = unified.embed_pairs([picture], [text])[0] @ unified.embed_query(QUESTION)
            assert hit.score == pytest.approx(float(near), abs=1e-3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_picture_finds_itself(
    made_once: tuple[Workspace, RefreshResult],
) -> None:
    workspace, result = made_once
    rows = figures(workspace, str(result.version))
    published = PublishedCorpus(workspace)
    try:
        for row in rows.values():
            figure = str(row["figure_id"])
            picture = workspace.store.get(figure_file(figure))
            for preset in ("image", "late"):
                scores = {
                    hit.figure_id: hit.score for hit in published.search(Query("", picture=picture, preset=preset)).hits
                }
                assert scores[figure] == pytest.approx(max(scores.values()), abs=1e-3), "nothing is nearer to it"
        assert published.search(Query("", picture=picture)).preset == "image", "the default, pages, looks at no picture"
        assert published.search(Query("a pump", picture=picture, preset="late")).preset == "late"
        takes = [preset.name for preset in published.overview().presets if preset.takes_picture and not preset.source]
        assert takes == ["image", "late", "unified"], "nothing describes pictures here"
        with pytest.raises(RequestError, match="preset pages looks at no picture"):
            published.search(Query("", picture=picture, preset="pages"))
        with pytest.raises(RequestError, match="the picture can't be read"):
            published.search(Query("", picture=b"GIF89a", preset="image"))
    finally:
        published.close()


def test_a_search_by_words_loads_no_model_of_pictures(
    made_once: tuple[Workspace, RefreshResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_arguments: object) -> None:
        raise AssertionError("nobody asked for it")

    for model in ("clip.Clip", "late_interaction.LateInteraction"):
        monkeypatch.setattr(f"backends.models.{model}", load)
    loaded.cache_clear()
    published = PublishedCorpus(made_once[0])
    try:
        assert published.search(Query(QUESTION)).hits
        assert published.answer(AnswerQuery("How many bar does the steel winch take?")).parts
        with pytest.raises(AssertionError):
            published.search(Query(QUESTION, preset="image"))
    finally:
        published.close()
        loaded.cache_clear()


def stored_ids(workspace: Workspace) -> dict[str, set[str]]:
    """Return the ids of all stored vectors, by space."""
    return {
        vectors.space.name: {
            str(name)
            for file in workspace.store.names(vectors.folder)
            for name in vectors.read(file).column("id").to_pylist()
        }
        for vectors in open_vectors(workspace.store, workspace.spaces)
    }


@pytest.mark.slow
def test_one_vector_a_distinct_picture_and_nothing_is_embedded_twice(
    spaces_wanted: dict[str, object], tmp_path: Path
) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    file = write(tmp_path, spaces_wanted)
    first = open_workspace(file)
    assert refresh(first).published
    before = stored_ids(first)
    assert [len(before[space]) for space in ("image", "unified", "late")] == [2, 2, 2]
    for subject in ("winch", "crane", "drill", "press", "lathe"):  # the same pictures under other words
        write_manual(tmp_path / "pdfs" / f"{subject}.pdf", subject, seed=1)
    again = open_workspace(file)
    assert refresh(again).published
    write_manual(tmp_path / "pdfs" / "lathe.pdf", "brass lathe", seed=1)
    result = refresh(open_workspace(file))
    assert result.published
    after = stored_ids(again)
    assert (after["image"], after["late"]) == (before["image"], before["late"])
    assert len(after["unified"]) == 14
    rows = figures(again, str(result.version))
    for space in ("image", "unified", "late"):
        assert again.index(str(result.version)).vectors(list(rows), space).keys() == rows.keys()
    notes = read_notes(again.store, str(result.version))
    assert notes[Stage.BUILD].counts["rows_written"] < notes[Stage.BUILD].counts["rows_built"]
    assert refresh(open_workspace(file)).version == result.version


def test_what_a_version_lacks_is_named_with_its_setting(published: Workspace) -> None:
    corpus = PublishedCorpus(published)
    try:
        with pytest.raises(RequestError, match=r"preset image needs vectors image.* set embeddings\.image in the"):
            corpus.search(Query(QUESTION, preset="image"))
        with pytest.raises(RequestError, match=r"embeddings\.late"):
            corpus.search(Query(QUESTION, preset="late"))
        with pytest.raises(
            RequestError, match=r"can't be searched by a picture: name a model of pictures as embeddings\.im"
        ):
            corpus.search(Query(QUESTION, picture=picture(1)))
    finally:
        corpus.close()


@pytest.mark.parametrize(
    ("embeddings", "says"),
    [
        ({"unified": "mean"}, "unified and joint are made by the model of embeddings.image: name one there"),
        ({"image": {"model": "x"}}, r"models\.image: it needs a revision"),
        ({"image": {"model": "x", "revison": "1"}}, r"models\.image\.revison: unknown key; .*revision"),
        ({"image": {"model": "x", "revision": "1", "top_p": 0.5}}, "image_embedder has no option 'top_p'; it has batch, "),
        ({"image": []}, r"embeddings\.image: Input should be a valid string"),
        ({"image": "minilm"}, r"embeddings\.image: there is no image_embedder 'minilm' among models; add 'models: "),
        ({"tables": {"model": "acme/x"}}, r"models\.tables: 'acme/x' needs a revision"),
        (
            {"text": {"model": "minilm", "query_prompt": "Q: "}},
            r"models\.text: 'minilm' is packaged .* takes no query_prompt",
        ),
    ],
)
def test_a_mistake_in_the_corpus_file_is_one_line(embeddings: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says) as caught:
        open_workspace(write(tmp_path, embeddings))
    assert len(caught.value.args) == 1


def test_settings_are_part_of_the_key_and_only_of_their_space(clip_folder: Path, tmp_path: Path) -> None:
    def keys(unified: str) -> dict[str, str]:
        embeddings: dict[str, object] = {"image": {"model": str(clip_folder), "revision": "1"}, "unified": unified}
        return {name: space.key for name, space in open_workspace(write(tmp_path, embeddings)).spaces.items()}

    mean, long = keys("mean"), keys("concatenation")
    assert mean["unified"] != long["unified"]
    assert mean["image"] == long["image"]
    image = {"name": str(clip_folder), "revision": "1", "dimension": CLIP_DIMENSION}
    settings = {"combine": "mean", "image_weight": 0.5}
    expected = key(model=image, step=UNIFIED.version, layout="documents", settings=settings)
    assert mean["unified"] == expected, "as when the corpus file had image_weight"
    assert mean["text"] == open_workspace(str(write_corpus(tmp_path))).spaces["text"].key


def test_precision_and_a_raised_version_of_the_settings_are_part_of_the_key(
    spaces_wanted: dict[str, dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(**more: object) -> dict[str, str]:
        embeddings: dict[str, object] = {name: spaces_wanted[name] | more for name in ("image", "late")}
        spaces = open_workspace(write(tmp_path, embeddings | {"unified": "mean"})).spaces
        return {name: space.key for name, space in spaces.items()}

    first = keys()
    image = {"name": spaces_wanted["image"]["model"], "revision": "1", "dimension": CLIP_DIMENSION}
    assert first["image"] == key(model=image, step=IMAGE.version, layout="documents"), (
        "without the settings where they are the default"
    )
    assert keys(precision="float32") == first
    assert _others(first, keys(precision="bfloat16")) == {"image", "late", "unified"}
    for module, changed in ((clip, {"image", "unified"}), (late_interaction, {"late"})):
        with monkeypatch.context() as patch:
            patch.setattr(module, "SETTINGS_VERSION", "2")
            assert _others(first, keys()) == changed
    model_name = ModelName(str(image["name"]), "1")
    with pytest.raises(UserError, match=r"at revision 1, and here it is used differently; refresh the corpus"):
        loaded(Embeds.PICTURES, model_name, ModelCard.model_validate(image | {"settings_version": "2"}))


def _others(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        (np.full(16, np.nan, np.float32), "values that are no numbers"),
        (np.ones(16, np.float32), "whose length is 3 off 1"),
        (np.ones(3, np.float32), r"an array of shape \(3,\) where its card promises \(16,\)"),
    ],
)
def test_a_vector_that_is_none_never_reaches_the_cache(
    vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    says: str,
    spaces_wanted: dict[str, object],
    corpus_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from backends.models.clip import Clip

    monkeypatch.setattr(Clip, "embed_pictures", lambda _self, pictures: np.stack([vector for _ in pictures]))
    workspace = open_workspace(write(corpus_file.parent.parent, {"image": spaces_wanted["image"]}))
    with pytest.raises(ContractError, match=rf"clip made .*{says}.*of figure [0-9a-f]{{64}}"):
        refresh(workspace)
    (_, image) = open_vectors(workspace.store, workspace.spaces)
    assert not image.exist()


@pytest.mark.parametrize("space", [IMAGE, LATE], ids=["image", "late"])
def test_a_column_holds_the_vector_of_each_row_and_null_where_there_is_none(
    space: Space, made_once: tuple[Workspace, RefreshResult]
) -> None:
    workspace, result = made_once
    vectors = next(vectors for vectors in open_vectors(workspace.store, workspace.spaces) if vectors.space is space)
    stored = 0
    for doc_id, evidence in documents_of(read_evidence(workspace.store, str(result.version))):
        rows = passages(evidence)
        column = vectors.of(doc_id, rows)
        assert column.type == vectors.column.type
        assert [vector is None for vector in column.to_pylist()] == [row.figure_id is None for row in rows]
        records = vectors.read(vectors.file(doc_id, vectors.contents(rows))).to_pylist()
        vectors_by_id = {record["id"]: record["vector"] for record in records}
        for row, vector in zip(rows, column.to_pylist(), strict=True):
            if vector is not None:
                assert vector == vectors_by_id[str(row.figure_id)]
        assert rows_off(column).tolist() == []
        stored += len(records)
    assert stored


def test_written_vectors_are_read_beside_earlier_ones(tmp_path: Path) -> None:
    vectors = SpaceVectors(open_store(str(tmp_path / "store")), LATE, "key", LATE_DIMENSION)
    unit = np.eye(3, LATE_DIMENSION, dtype=np.float32)
    first = vectors.write("doc", {"one": unit, "two": unit[:2]})
    second = vectors.write("doc", {"three": unit[:1]}, [vectors.read(first)])
    assert second == vectors.file("doc", ["two", "three", "one"]) != first
    counts = {record["id"]: len(record["vector"]) for record in vectors.read(second).to_pylist()}
    assert counts == {"one": 3, "two": 2, "three": 1}
