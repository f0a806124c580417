"""Corpus files: read, resolved, and explained when wrong."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.corpus.corpora import MAX_BYTES, json_schema, load_corpus, write_corpus_file
from pipeline.corpus.schedules import corpus_schedules
from schemas import printing
from schemas.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INSET_CORPORA", raising=False)
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora"


def test_name_and_source_are_enough(folder: Path) -> None:
    (folder / "manuals.yaml").write_text("name: manuals\nsource: ../pdfs\n")
    corpus = load_corpus("manuals")
    assert corpus.source == str(folder.parent / "pdfs")
    assert corpus.store == str(folder.parent / ".inset" / "store")
    assert corpus == load_corpus(str(folder / "manuals.yaml"))


def test_s3_addresses_stay_as_they_are(folder: Path) -> None:
    (folder / "m.yaml").write_text("name: m\nsource: s3://b/pdfs\nstore: s3://b/store\n")
    corpus = load_corpus("m")
    assert (corpus.source, corpus.store) == ("s3://b/pdfs", "s3://b/store")


@pytest.mark.parametrize(
    ("template_name", "spelled"),
    [
        ("canonical", "<image:{number}.{ext}>"),
        ("paper", "<image: filename({number}.{ext})>"),
        ("'<image:{page}/{number}>'", "<image:{page}/{number}>"),
    ],
)
def test_a_template_has_a_name_or_is_spelled_out(folder: Path, template_name: str, spelled: str) -> None:
    (folder / "m.yaml").write_text(f"name: m\nsource: x\ntags: {{template: {template_name}}}\n")
    assert load_corpus("m").tags.template == spelled


def test_no_layout_model_of_earlier_releases_is_what_holds(folder: Path) -> None:
    (folder / "m.yaml").write_text("name: m\nsource: x\ncaptions: {ocr: none, layout: none}\n")
    assert load_corpus("m").captions.ocr == "none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: m\nsource: x\ncaptions: {layout: rapid}\n", "captions.layout: unknown key"),
        ("name: m\n", "m.yaml: file: name the folder or address of the documents"),
        ("name: m\nsource: x\nsorce: y\n", "m.yaml: sorce: unknown key; did you mean 'source'?"),
        ("name: m\nsource: x\nparse: {timeout: 3}\n", "parse.timeout: unknown key; did you mean 'timeout_s'?"),
        ("name: Bad-Name\nsource: x\n", "name: use a-z, 0-9 and _ only"),
        (
            "name: m\nsource: x\ngates: {max_quarantined: 2}\n",
            "gates.max_quarantined: Input should be less than or equal to 1",
        ),
        (
            "name: m\nsource: x\nembeddings: {text: BAAI/bge-m3}\n",
            "there is no text_embedder 'BAAI/bge-m3' among models; known here: minilm",
        ),
        (
            "name: m\nsource: x\ncaptions: {ocr: tesseract}\n",
            "captions.ocr: Input should be 'rapidocr' or 'none' (found 'tesseract')",
        ),
        ("name: m\nsource: x\ncaptions: {captioner: poet}\n", "there is no captioner 'poet'; known here: context"),
        ("name: m\nsource: x\ncaptions: {ocr: rapid}\n", "captions.ocr: Input should be 'rapidocr' or 'none'"),
        ("name: m\nsource: x\nindex: {engine: weaviate}\n", "index: engine weaviate needs a url"),
        ("name: m\nsource: x\nindex: {engine: weaviate, url: 'localhost:8080'}\n", "index.url: use http://host:port"),
        ("name: m\nsource: x\nindex: {engine: weaviate, url: 'http://h:50051'}\n", "name the same port"),
        (
            "name: m\nsource: x\nranking: {stop_words: english}\n",
            "ranking: this key stands elsewhere now: write it as steps of a preset of your own",
        ),
        (
            "name: m\nsource: x\nindex: {chunk_tokens: 64}\n",
            "index.chunk_tokens: this key stands elsewhere now: write 'chunks: {tokens: …}'",
        ),
        ("name: m\nsource: x\noperations: {watch_s: 60}\n", "operations.watch_s: this key is gone: write 'schedule: "),
        ("name: m\nsource: x\ntags: {template: '<img>'}\n", "tags.template: a tag template holds"),
        ("name: m\nsource: x\nschedule: sometimes\n", "schedule: use a cron expression"),
        ("name: [\n", "m.yaml: line 2 this is not YAML"),
        ("just words", "this is not a corpus file"),
        ("name: m\nsource: pdfs/**.pdf\n", "source: '**' stands alone between slashes"),
        ("name: m\nsource: ~nosuchuser/pdfs\n", "source: there is no home folder for ~nosuchuser"),
        ("name: m\nsource: x\nstore: /etc/passwd\n", "store: /etc/passwd is not a folder"),
        ("name: m\nsource: x\nstore: /etc/passwd/store\n", "store: /etc/passwd is not a folder"),
        ("name: m\nsource: x\nquestions: /dev/zero\n", "questions: /dev/zero is not a file"),
        ('name: m\nsource: x\nquestions: "a\\0b"\n', "questions: write one line of plain text"),
        ('name: m\nsource: "\\ud800"\n', "source: write one line of plain text"),
        ("name: m\nsource: x\nschedule: 2024-13-45\n", "schedule: use a cron expression"),
        ("name: m\nsource: x\nparse: {memory_mb: 99999999999999999999}\n", "memory_mb: Input should be less than"),
        ("name: m\nsource: x\nparse: {shard_mb: .inf}\n", "parse.shard_mb: Input should be a finite number"),
        ("name: m\nsource: x\nindex: {engine: weaviate, url: 'http://h:99999'}\n", "index.url: use http://host:port"),
    ],
)
def test_mistakes_name_file_key_and_remedy(folder: Path, text: str, expected: str) -> None:
    (folder / "m.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_corpus("m")
    assert expected in caught.value.message
    assert "m.yaml" in caught.value.message


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    (folder / "m.yaml").write_text("name: m\nsource: x\n")
    with pytest.raises(UserError, match="known here: m"):
        load_corpus("n")


def test_init_writes_a_file_that_loads(folder: Path) -> None:
    path = write_corpus_file("handbooks", "pdfs")
    assert load_corpus("handbooks").source == str(folder.parent / "pdfs")
    assert json.loads((folder / "corpus.schema.json").read_text()) == json_schema()
    with pytest.raises(UserError, match="is there already"):
        write_corpus_file("handbooks", "pdfs")
    assert path == folder / "handbooks.yaml"


_FILES: dict[str, tuple[str | bytes, str]] = {
    "a number of 5,000 digits": (f"name: m\nsource: x\nparse: {{max_pages: {'9' * 5000}}}\n", "this is not YAML"),
    "as many in base 16": (f"name: m\nsource: x\nparse: {{max_pages: 0x{'f' * 5000}}}\n", "parse.max_pages"),
    "3,000 nested brackets": (f"name: m\nsource: {'[' * 3000}{']' * 3000}\n", "nested too deeply"),
    "an alias within what it names": ("name: &a [*a]\nsource: x\n", "name: Input should be a valid string"),
    "a tag that isn't so": ("name: m\nsource: !!int zz\n", "this is not YAML"),
    "a date that isn't one": ("name: m\nsource: !!timestamp soon\n", "this is not YAML"),
    "a code to run": ("name: !!python/object/apply:os.system ['true']\nsource: x\n", "line 1"),
    "keys that are lists": ("{[a]: b}\n", "line 1"),
    "keys that are numbers": ("name: m\nsource: x\n5: y\n", "5: Keys should be strings"),
    "two documents": ("name: m\nsource: x\n---\nname: n\n", "line 3"),
    "bytes of another encoding": (b"name: caf\xe9\n", "line 1 this is not YAML: its bytes are not UTF-8"),
    "a byte that YAML may not hold": (b"name: m\nsource: a\x00\n", "line 2 this is not YAML"),
    "nothing": ("", "this is not a corpus file"),
    "too much": ("#" * (MAX_BYTES + 1), "more than 128 KiB"),
    "an escape sequence": ('name: "\\e[31mred"\nsource: x\n', "use a-z"),
}


@pytest.mark.parametrize("fault", _FILES)
def test_whatever_a_file_holds_is_one_line_of_its_own_and_no_other_file_notices(folder: Path, fault: str) -> None:
    text, expected = _FILES[fault]
    (folder / "good.yaml").write_text("name: good\nsource: x\n")
    (folder / "m.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        load_corpus("m")
    message = caught.value.message
    assert message.startswith(f"{folder / 'm.yaml'}:")
    assert expected in message
    assert printing.is_plain(message)
    assert len(message) < 600
    _only_one_is_broken(folder / "m.yaml", message)


def _only_one_is_broken(file: Path, message: str) -> None:
    problems = {schedule.file: schedule.problem for schedule in corpus_schedules()}
    assert problems == {file.parent / "good.yaml": "", file: message}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "m.yaml: this isn't a file, so it can't be a corpus file"),
        (Path.mkdir, "m.yaml: this isn't a file, so it can't be a corpus file"),
        (lambda path: path.symlink_to(path), "m.yaml: this corpus file can't be read"),
        (lambda path: path.symlink_to("nowhere"), "there is no corpus file"),
    ],
    ids=["FIFO", "folder", "link to itself", "link to nothing"],
)
def test_what_is_no_file_is_not_waited_for(folder: Path, make: Callable[[Path], object], says: str) -> None:
    file = folder / "m.yaml"
    make(file)
    (folder / "good.yaml").write_text("name: good\nsource: x\n")
    with pytest.raises(UserError) as caught:
        load_corpus("m")
    assert "m.yaml" in caught.value.message
    assert says in caught.value.message
    _only_one_is_broken(file, caught.value.message)


def test_a_file_that_nobody_may_read_costs_itself(unprivileged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSET_CORPORA", str(unprivileged))
    for name in ("good", "m"):
        (unprivileged / f"{name}.yaml").write_text(f"name: {name}\nsource: x\n")
    (unprivileged / "m.yaml").chmod(0)
    with pytest.raises(UserError, match=r"m\.yaml: this corpus file can't be read: Permission denied") as caught:
        load_corpus("m")
    _only_one_is_broken(unprivileged / "m.yaml", caught.value.message)


@pytest.mark.parametrize("name", ["x" * 245, "a\nb\x1b[31m", "{{ 7*7 }}", os.fsdecode(b"caf\xe9")])
def test_a_file_may_have_any_name(folder: Path, name: str) -> None:
    (folder / f"{name}.yaml").write_text("name: m\nsourc: x\n")
    (schedule,) = corpus_schedules()
    assert len(schedule.name) <= 80
    assert schedule.name.isascii()
    assert schedule.name.isidentifier()
    assert all(map(printing.is_plain, schedule.problem.splitlines()))
    assert all(".yaml: " in line for line in schedule.problem.splitlines()), "a name forges no line"


def test_a_name_that_no_scheduler_can_keep_is_refused(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9.yaml")).write_text("name: m\nsource: x\n")
    (schedule,) = corpus_schedules()
    assert "not UTF-8" in schedule.problem


def test_corpora_that_can_not_be_listed_are_not_taken_for_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "corpora"
    file.write_text("")
    monkeypatch.setenv("INSET_CORPORA", str(file))
    with pytest.raises(UserError, match="can't list the corpus files"):
        corpus_schedules()


_SECRET = "hunter2"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source", f"s3://AKIA:{_SECRET}@bucket/pdfs"),
        ("source", f"https://joe:{_SECRET}@host/pdfs"),
        ("store", f"s3://{_SECRET}@bucket"),
        ("questions", f"file://joe:{_SECRET}@host/q.jsonl"),
        ("index", f"{{engine: weaviate, url: 'http://joe:{_SECRET}@host:8080'}}"),
        ("index", f"{{engine: weaviate, url: 'http://joe:{_SECRET}/@host:8080'}}"),
        ("index", f"{{engine: weaviate, url: 'http://host:8080/?key={_SECRET}'}}"),
        ("index", f"{{engine: weaviate, url: 'http://host:8080/#{_SECRET}'}}"),
        ("index", f"{{engine: magic, url: 'http://joe:{_SECRET}@host:8080', api_key_env: '{_SECRET} '}}"),
        ("parse", f"{{passwords_env: '{_SECRET}\n{_SECRET}'}}"),
        ("ray", f"{{address: 'ray://joe:{_SECRET}@host:10001'}}"),
    ],
)
def test_a_secret_in_an_address_is_refused_and_never_shown(folder: Path, key: str, value: str) -> None:
    text = value if value.startswith("{") else json.dumps(value)
    source_line = "" if key == "source" else "source: x\n"
    (folder / "m.yaml").write_text(f"name: m\n{source_line}{key}: {text}\n")
    with pytest.raises(UserError) as caught:
        load_corpus("m")
    assert key in caught.value.message
    assert _SECRET not in caught.value.message


def test_init_keeps_any_name_that_a_folder_may_have(folder: Path) -> None:
    (folder.parent / "📖 {x} \\ 'y'").mkdir()
    write_corpus_file("books", "📖 {x} \\ 'y'")
    assert load_corpus("books").source == str(folder.parent / "📖 {x} \\ 'y'")
    with pytest.raises(UserError, match="plain text"):
        write_corpus_file("bytes", os.fsdecode(b"caf\xe9"))


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("captions: {models: {vlm: {}}}", "captions.models: this key stands elsewhere now: write 'models: {NAME: {kind:"),
        ("retrieval: {models: {}}", "retrieval.models: this key stands elsewhere now: write 'models: {NAME: {kind:"),
        ("embeddings: {batch: 64}", "'models: {text: {kind: text_embedder, model: …, batch: …}}'"),
        (
            "embeddings: {revision: '1'}",
            "'embeddings: {text: text}', 'models: {text: {kind: text_embedder, model: …, revision:",
        ),
        (
            "embeddings: {image: {model: clip}}",
            "embeddings.image: models have one table now: write 'embeddings: {image: image}'",
        ),
        ("embeddings: {late: {model: colqwen}}", "'models: {late: {kind: late_embedder, model: …}}'"),
    ],
)
def test_models_of_earlier_releases_are_refused_with_the_lines_to_write(folder: Path, section: str, line: str) -> None:
    (folder / "m.yaml").write_text(f"name: m\nsource: pdfs\n{section}\n")
    with pytest.raises(UserError) as raised:
        load_corpus("m")
    assert line in raised.value.message
