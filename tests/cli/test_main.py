"""The command as a person and a script meet it: results, exit codes, one clear line for a mistake."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from cli import main
from pipeline.corpus.workspace import open_workspace
from pipeline.records.lease import acquire
from pipeline.records.publication import this_person
from schemas.documents import Chunk, StructuredDocument
from tasks.enriching.chunk import chunk
from tests.manuals import write_layered_scan, write_long_table, write_manual, write_scan


class CommandResult:
    """Exit code and output of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Inset = Callable[..., CommandResult]


@pytest.fixture
def inset(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inset:
    """Run the command in this process, through its entry point."""

    def run(*arguments: str | Path) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["inset", *map(str, arguments)])
        with pytest.raises(SystemExit) as raised:
            main.main()
        output = capsys.readouterr()
        return CommandResult(int(raised.value.code or 0), output.out, output.err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two manuals and nothing else."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INSET_CORPORA", raising=False)
    return tmp_path


def turn_off_ocr(folder: Path, extra: str = "") -> None:
    """OCR has tests of its own."""
    (folder / "corpora" / "manuals.yaml").write_text(f"name: manuals\nsource: ../pdfs\ncaptions: {{ocr: none}}\n{extra}")


def test_from_init_to_rollback(folder: Path, inset: Inset) -> None:
    created = inset("init", "--json")
    assert (created.code, Path(created.json["file"]).name) == (0, "manuals.yaml")
    turn_off_ocr(folder, "gates: {max_quarantined: 0.5}\n")
    planned = inset("plan", "manuals", "--json").json
    assert (planned["outcome"], planned["live"], planned["new"], planned["to_parse"]) == ("build", None, 2, 2)

    first = inset("refresh", "manuals", "--json")
    assert first.code == 0
    assert set(first.json) == {"version", "published", "plan", "counts", "gates", "failures", "timings_s"}
    assert first.json["published"]
    again = inset("refresh", "manuals", "--json")
    assert (again.code, again.json["version"], again.json["published"]) == (0, first.json["version"], False)
    assert f"manuals: nothing changed: version {first.json['version']} stays live\n" in inset("refresh", "manuals").err

    (folder / "pdfs" / "broken.pdf").write_bytes(b"<html>not found</html>")
    second = inset("refresh", "manuals", "--json").json
    assert [set(failure) >= {"source", "doc_id", "page", "step", "code", "message"} for failure in second["failures"]] == [
        True
    ]
    assert (second["failures"][0]["source"], second["failures"][0]["code"]) == ("broken.pdf", "not_a_pdf")
    listed = inset("quarantine", "manuals", "--json").json
    assert [failure["source"] for failure in listed["failures"]] == ["broken.pdf"]
    write_manual(folder / "pdfs" / "broken.pdf", "repaired valve", seed=3)

    assert inset("rollback", "manuals", "--json").json["version"] == first.json["version"]
    listed = inset("versions", "manuals")
    assert re.search(rf"{second['version']} +previous +20", listed.out)
    states = {row["version"]: row["state"] for row in inset("versions", "manuals", "--json").json["versions"]}
    assert states[first.json["version"]] == "live"
    third = inset("refresh", "manuals", "--json").json
    assert not third["published"]
    error_output = inset("refresh", "manuals").err
    assert f"manuals: version {third['version']} not published: the corpus is held since a rollback\n" in error_output
    assert f"inset publish manuals {third['version']}\n" in error_output
    assert inset("publish", "manuals", third["version"]).code == 0
    changed = inset("diff", "manuals", first.json["version"], third["version"], "--json").json
    assert (changed["documents"]["added"], len(changed["figures_gained"])) == (["broken.pdf"], 2)
    assert "## Documents added: 1" in inset("diff", "manuals", "previous", "live").out

    _search_and_ask(inset, third["version"])
    _many_questions(inset, folder)
    spare = inset("prune", "manuals", "--json").json
    inset("prune", "manuals", "--yes")
    (next((folder / ".inset").rglob("documents")) / f"{'0' * 64}.pdf").write_bytes(bytes(2000))
    assert "to remove it, 2.0 kB: inset prune manuals --yes" in inset("prune", "manuals").err
    assert inset("prune", "manuals", "--yes").err.endswith("manuals: removed, 2.0 kB\n")
    assert (spare["removed"], spare["versions"]) == (False, [])
    exported = inset("export", "manuals", "--tables", folder / "tables", "--json").json
    assert (exported["version"], exported["documents"]) == (third["version"], 3)
    assert (Path(exported["folder"]) / "tables.parquet").is_file()
    for name, version in {"live": third, "previous": first.json, "latest": third}.items():
        result = inset("search", "manuals", "screws", "--version", name, "-k", "1", "--json").json
        assert result["version"] == version["version"]
    live = next((folder / ".inset").rglob("LIVE"))
    live.unlink()
    lost = inset("versions", "manuals")
    assert (lost.code, third["version"] in lost.out) == (0, True)
    assert "LIVE is missing; to restore it: inset refresh manuals, or choose a version" in lost.err
    assert inset("publish", "manuals", "latest").code == 0


def test_pages_that_fail_alike_are_one_line(folder: Path, inset: Inset) -> None:
    inset("init")
    file = write_manual(folder / "pdfs" / "broken.pdf", "pump", pages=5)
    with pymupdf.open(file) as document:
        for page in (1, 2, 4):
            xref, *_ = document[page].get_contents()
            document.update_stream(xref, b"not zlib at all", new=False, compress=False)
            document.xref_set_key(xref, "Filter", "/FlateDecode")
        document.saveIncr()
    (line,) = [line for line in inset("parse", file).err.splitlines() if line.startswith("broken.pdf")]
    assert line.startswith("broken.pdf, pages 2-3, 5: damaged: the page is damaged: ")
    output = inset("refresh", "manuals").err
    (partly,) = [line for line in output.splitlines() if "broken.pdf" in line]
    assert partly.startswith("  partly read: pages 2-3, 5 of broken.pdf: damaged: ")
    (line,) = [line for line in inset("quarantine", "manuals").out.splitlines() if "broken.pdf" in line]
    assert line.split()[:4] == ["broken.pdf", "2-3,", "5", "parse"]
    listed = inset("quarantine", "manuals", "--json").json["failures"]
    assert [failure["page"] for failure in listed if failure["source"] == "broken.pdf"] == [2, 3, 5]


def _search_and_ask(inset: Inset, version: str) -> None:
    result = inset("search", "manuals", "repaired valve screws", "-k", "3", "--preset", "bm25", "--json").json
    assert (result["version"], result["preset"]) == (version, "bm25")
    fields = "evidence_id score modality doc_id source page bbox section_path text tagged_text figure_refs".split()
    assert all(name in result["hits"][0] for name in fields)
    assert result["hits"][0]["source"] == "broken.pdf"
    _narrowed(inset)
    assert inset("search", "manuals", "repaired valve", "--modality", "figure", "-k", "1", "--json").json["hits"]
    missing = {preset["name"]: preset["missing"] for preset in inset("presets", "manuals", "--json").json["presets"]}
    assert (missing["pages"], missing["image"]) == ([], ["vectors image (set embeddings.image)"])
    traced = inset("search", "manuals", "valve", "--set", "select.diversity=0.5", "--trace", "-k", "1")
    assert "select" in traced.out
    answer = inset("ask", "manuals", "What does the repaired valve look like from side 2?", "--json").json
    assert {"version", "abstained", "parts", "citations"} <= set(answer)
    assert {"text", "figure"} == {part["type"] for part in answer["parts"]}
    assert {n for part in answer["parts"] for n in part["citations"]} == {cited["n"] for cited in answer["citations"]}
    spoken = inset("ask", "manuals", "What does the repaired valve look like from side 2?")
    assert "(broken.pdf), page 2: " in spoken.out, "the section stands behind the page"
    cited = {*re.findall(r"^\[\d+\]", spoken.out, re.MULTILINE)}
    assert cited == {*re.findall(r"\[\d+\]", spoken.out)}, "what is folded isn't listed"
    assert inset("ask", "manuals", "What is a valve?", "--preset", "magic").err.startswith(
        "inset: there is no preset 'magic'"
    )
    by_words = inset("ask", "manuals", "What does the repaired valve look like from side 2?", "--preset", "bm25")
    assert "(broken.pdf), page 2" in by_words.out


def test_ask_puts_a_question_to_several_corpora(folder: Path, inset: Inset) -> None:
    corpora = folder / "corpora"
    corpora.mkdir()
    for name, source in (("pumps", "pump"), ("winches", "winch"), ("empty", "none")):
        (folder / name).mkdir()
        if (folder / "pdfs" / f"{source}.pdf").exists():
            (folder / "pdfs" / f"{source}.pdf").rename(folder / name / f"{source}.pdf")
        (corpora / f"{name}.yaml").write_text(f"name: {name}\nsource: ../{name}\ncaptions: {{ocr: none}}\n")
    versions = {name: inset("refresh", name, "--json").json["version"] for name in ("pumps", "winches")}
    question = "How many screws has the steel winch?"
    alone = inset("ask", "winches", question, "--json").json
    answer = inset("ask", "pumps", "winches", question, "--json").json
    assert answer["parts"][0]["text"] == alone["parts"][0]["text"]
    assert {(cited["corpus"], cited["version"]) for cited in answer["citations"]} <= {*versions.items()}
    assert answer["citations"][0]["corpus"] == "winches"
    assert [(asked["name"], asked["version"]) for asked in answer["corpora"]] == sorted(versions.items())
    assert "winch.pdf" in inset("ask", "pumps", "winches", question).out

    partly = inset("ask", "winches", "empty", question)
    assert (partly.code, "left out: empty: " in partly.err, "winch.pdf" in partly.out) == (0, True, True)
    assert inset("ask", "pumps", "winches", question, "--version", versions["pumps"]).err.startswith("inset: --version: ")


def _narrowed(inset: Inset) -> None:
    search = ("search", "manuals", "screws of the winch")
    narrow = (
        "--source",
        "w*.pdf",
        "--pages",
        "2-",
        "--page-label",
        "2",
        "--section",
        "service of the steel winch, part 2",
        "--phrase",
        "has 2 screws",
    )
    result = inset(*search, *narrow, "--since", "2024", "--json").json
    assert result["hits"] == [], "none of them names a day"
    (hit,) = inset(*search, *narrow, "--highlight", "--json").json["hits"]
    assert (hit["source"], hit["page"]) == ("winch.pdf", 2)
    assert "winch" in [hit["text"][slice(*span)] for span in hit["highlights"]]
    assert hit["nearest_sentence"] is not None
    grouped = inset(*search, "--group", "document", "--has-figure", "--modality", "text", "-k", "100")
    assert grouped.out.count(" more in this document") <= 3
    assert len([line for line in grouped.out.splitlines() if line[:1].isdigit()]) == 3
    assert inset(*search, "--language", "en", "--json").json["hits"]
    assert inset(*search, "--language", "fr", "--json").json["hits"] == []
    assert inset(*search, "--source", "x*").err == "nothing found\n"


def _many_questions(inset: Inset, folder: Path) -> None:
    questions = folder / "questions.jsonl"
    rows = [{"id": "a", "question": "screws of the winch"}, {"id": "b", "question": "screws", "doc": "pump.pdf"}]
    questions.write_text("\n".join(map(json.dumps, rows)))
    unwritable = inset("questions", "rank", "manuals", questions, "--out", folder / "nowhere" / "ranked.jsonl")
    assert "can't write" in unwritable.err
    assert "search:" not in unwritable.err, "known before all are searched"
    assert "there is no version" in inset("search", "manuals", "valve", "--version", "../x").err
    result = inset("questions", "rank", "manuals", questions, "--out", folder / "ranked.jsonl", "--json")
    assert result.code == 0
    ranked = {row["id"]: row["ranking"] for row in map(json.loads, (folder / "ranked.jsonl").read_text().splitlines())}
    assert ranked["a"][0][0] == "winch.pdf"
    assert {source for source, _ in ranked["b"]} == {"pump.pdf"}
    assert all(len({tuple(pair) for pair in pairs}) == len(pairs) for pairs in ranked.values())


def test_a_refused_version_exits_with_3_and_says_why(folder: Path, inset: Inset) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder, "gates: {max_quarantined: 0.0}\n")
    (folder / "pdfs" / "empty.pdf").write_bytes(b"")
    refused = inset("refresh", "manuals")
    assert refused.code == 3
    *_, reason, override_hint = refused.err.splitlines()
    assert reason.startswith("  refused: quarantine ceiling: 1 of 3 documents are in quarantine (33%)")
    assert "empty.pdf (empty_file); to see why: inset quarantine manuals" in reason
    listed = inset("quarantine", "manuals")
    assert "empty_file" in listed.out
    assert "empty_file: Put the file into the source again" in listed.err
    (version,) = [row["version"] for row in inset("versions", "manuals", "--json").json["versions"]]
    unpublished = inset("search", "manuals", "valve").err
    assert f"nothing is published; {version} was refused: quarantine ceiling: " in unpublished
    assert override_hint in unpublished
    assert "inset refresh" not in unpublished, "it would refuse again"
    assert override_hint == f'if it is to go live all the same: inset publish manuals {version} --override "REASON"'
    stopped = inset("publish", "manuals", version)
    assert (stopped.code, override_hint in stopped.err) == (3, True)
    assert stopped.err.count("quarantine ceiling") == 1
    (folder / "corpora" / "manuals.yaml").write_text(
        (folder / "corpora" / "manuals.yaml").read_text().replace("0.0", "0.5")
    )
    assert inset("quarantine", "manuals", "--replay", "--json").json["published"]
    assert inset("publish", "manuals", version, "--override", "one empty file isn't a reason", "--json").code == 0
    versions = inset("versions", "manuals")
    assert f"{version}: gates overridden on " in versions.err
    assert re.search(rf"override +{version} +{re.escape(this_person())} +one empty file isn't a reason", versions.out)
    turn_off_ocr(folder, "gates: {max_quarantined: 0.0}\n")
    again = inset("refresh", "manuals", "--json")
    assert (again.code, again.json["version"], again.json["published"]) == (0, version, False), "it is the live version"
    replayed = inset("quarantine", "manuals", "--replay", "--json")
    assert (replayed.code, replayed.json["version"]) == (0, version)


def test_a_document_that_breaks_a_law_is_shown_with_its_pages_and_what_to_do(
    folder: Path, inset: Inset, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder, "gates: {max_quarantined: 0.5}\n")

    def lose_figures(document: StructuredDocument, *rest: Any, **options: Any) -> list[Chunk]:
        pieces = chunk(document, *rest, **options)
        return [piece for piece in pieces if piece.modality != "figure" or "Winch" not in document.title]

    monkeypatch.setattr("ray_jobs.enrich.chunk", lose_figures)
    result = inset("refresh", "manuals")
    assert result.code == 0
    *_, line, retry = result.err.splitlines()
    message = "figures conserved: a figure has no row (pages 1, 2); this is a fault of Inset: please report it"
    assert line == f"  quarantine: winch.pdf: law_broken: {message}"
    assert retry.endswith("try it again: inset quarantine manuals --replay")
    (failure,) = inset("quarantine", "manuals", "--json").json["failures"]
    assert (failure["source"], failure["code"], failure["step"], failure["message"]) == (
        *("winch.pdf", "law_broken", "check"),
        message,
    )
    assert inset("plan", "manuals", "--json").json["outcome"] == "unchanged"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert inset("quarantine", "manuals", "--replay", "--json").json["counts"]["quarantined"] == 0


def test_parse_shows_a_single_pdf(folder: Path, inset: Inset) -> None:
    parsed = inset("parse", folder / "pdfs" / "pump.pdf", "--out", folder / "shown", "--json").json
    assert set(parsed) >= {"doc_id", "source", "pages", "failures"}
    page = parsed["pages"][0]
    assert set(page) >= {"page", "width_pt", "height_pt", "tagged_text", "figures"}
    figure = page["figures"][0]
    assert {"tag", "figure_id", "bbox", "role", "kind", "caption"} <= set(figure)
    assert figure["tag"] in page["tagged_text"]
    assert "Figure 1: The water pump seen from side 1" in page["tagged_text"]
    assert list((folder / "shown").rglob("*.png"))
    (heading,) = page["outline"]
    assert (heading["level"], heading["title"]) == (1, "1 Service of the water pump, part 1")
    section, image = parsed["contents"].splitlines()[:2]
    assert section == f"- {heading['title']} [{heading['node_id']}]"
    assert image.startswith("  - [image] Figure 1: The water pump seen from side 1 [")
    printed = inset("parse", folder / "pdfs" / "pump.pdf", "--contents")
    assert printed.out.splitlines() == parsed["contents"].splitlines()


def test_parse_shows_a_table_once_with_all_its_rows_and_each_page_its_own(folder: Path, inset: Inset) -> None:
    write_long_table(folder / "pdfs" / "table.pdf")
    parsed = inset("parse", folder / "pdfs" / "table.pdf", "--json").json
    first, second = parsed["pages"]
    (table,) = first["tables"]
    assert second["tables"] == []
    assert set(table) == {"bbox", "caption", "header", "rows", "markdown", "html", "regions", "spans"}
    assert (table["caption"], table["header"]) == ("Table 1: Torques", ["Part", "Torque", "Sign"])
    assert [row[0] for row in table["rows"]] == ["Part", *(f"Screw {number}" for number in range(8))]
    assert [(region["page"], region["found_by"]) for region in table["regions"]] == [(1, "ruled"), (2, "ruled")]
    tag = next(figure["tag"] for figure in second["figures"] if figure["tag"])
    assert table["rows"][-1][2] == tag
    assert f"<td>{tag}</td>" in table["html"]
    assert tag in table["markdown"]
    assert tag in second["tagged_text"]
    assert "Screw 2" in first["tagged_text"]
    assert "Screw 7" not in first["tagged_text"]
    assert "Screw 7" in second["tagged_text"]


def test_the_numbers_of_lines_are_furniture_and_not_in_the_text(inset: Inset, tmp_path: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        for number in range(1, 16):
            page.insert_text(
                (90, 100 + 14 * number), "The pump is stopped before the valve is opened and the filter is out"
            )
            if number % 5 == 0:
                page.insert_text((50, 100 + 14 * number), str(number), fontsize=7)
        document.save(tmp_path / "numbered.pdf")
    (shown,) = inset("parse", tmp_path / "numbered.pdf", "--json").json["pages"]
    assert [(part["role"], part["text"].split()) for part in shown["furniture"]] == [("line_number", ["5", "10", "15"])]
    assert not any(part.isdecimal() for part in shown["tagged_text"].split())


def test_parse_finds_the_figure_of_a_scanned_page_and_reads_its_words(folder: Path, inset: Inset) -> None:
    file = write_scan(folder / "pdfs" / "scan.pdf", "water pump")
    (page,) = inset("parse", file, "--ocr", "--json").json["pages"]
    scan, figure = page["figures"]
    assert (scan["role"], scan["tag"]) == ("page_scan", None)
    assert figure["role"] == "content"
    tagged = page["tagged_text"]
    assert 0 < tagged.index("takes 01 bar") < tagged.index(figure["tag"]) < tagged.index("shows, the water pump has")
    assert "seen from side 1" in figure["caption"]


def test_parse_says_whose_words_a_scan_with_a_text_layer_has(folder: Path, inset: Inset) -> None:
    misread = str.maketrans({"e": "c", "m": "rn", "l": "1", "a": "o"})
    for name, layer in (("good", str), ("poor", lambda words: words.translate(misread))):
        file = write_layered_scan(folder / f"{name}.pdf", "water pump", layer)
        pages = inset("parse", file, "--ocr", "--json").json["pages"]
        scans = [figure for page in pages for figure in page["figures"] if figure["kind"] == "scan" and not figure["tag"]]
        assert {scan["role"] for scan in scans} == {"background" if name == "good" else "page_scan"}
        assert all(("whose text layer OCR replaces" in scan["reason"]) is (name == "poor") for scan in scans)
        for page in pages:
            assert page["tagged_text"].count("seen from side") == 1
            assert "pump takes" in page["tagged_text"]
            assert "purnp" not in page["tagged_text"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("refresh", "nothing"), "nothing"),
        (("parse", "absent.pdf"), "absent.pdf"),
        (("parse", "page.pdf"), "isn't a PDF"),
        (
            ("search", "manuals", "x", "--preset", "magic"),
            "there is no preset 'magic'; use one of pages, bm25, dense, diverse, hybrid",
        ),
        (("search", "manuals"), "QUERY"),
        (("search", "manuals", " \n"), "QUERY"),
        (("search", "manuals", "a \udcff"), "write it in UTF-8"),
        (("ask", "manuals", " "), "QUESTION"),
        (("ask", "manuals", "\udcff"), "write it in UTF-8"),
        (("search", "manuals", "x", "--pages", "9-3"), "--pages 9-3: write a page such as 3"),
        (("search", "manuals", "x", "--pages", "0"), "--pages 0: write a page such as 3"),
        (("search", "manuals", "x", "--page", "three"), "--pages three: write a page such as 3"),
        (("search", "manuals", "x", "--since", "May"), "--since May: write a day such as 2024-03-31, a month or a year"),
        (("search", "manuals", "x", "--phrase", "?!"), "--phrase ?!: write at least one letter or digit"),
        (("search", "manuals", "x", "--group", "chapter"), "--group chapter: use one of document, page"),
        (("search", "manuals", "x", "--modality", "song"), "--modality song: use one of figure, page, table, text"),
        (("questions", "pages", "manuals", "--out", "x.parquet", "--images", "some"), "paper, none"),
        (("questions", "pages", "manuals", "--out", "x.parquet"), "nothing is published yet"),
        (("export", "manuals", "--tables", "x"), "nothing is published yet"),
        (("rollback", "manuals"), "manuals"),
        (("publish", "manuals", "v9"), "v9"),
        (("refresh", "typo"), "sourc"),
        (("refresh", "x" * 300), "File name too long"),
        (("plan", "fifo"), "fifo.yaml"),
        (("plan", "passwd"), "/etc/passwd is not a folder"),
        (("parse", "pdfs"), "it is a folder, not a file"),
        (("parse", "fifo.pdf"), "it is a FIFO, not a file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(folder: Path, inset: Inset, arguments: Sequence[str], expected: str) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder)
    (folder / "corpora" / "typo.yaml").write_text("name: typo\nsourc: pdfs\n")
    (folder / "page.pdf").write_text("<html></html>")
    (folder / "corpora" / "passwd.yaml").write_text("name: passwd\nsource: ../pdfs\nstore: /etc/passwd\n")
    os.mkfifo(folder / "corpora" / "fifo.yaml")
    os.mkfifo(folder / "fifo.pdf")
    answer = inset(*arguments)
    assert answer.code == 2
    assert expected in answer.err
    assert "Traceback" not in answer.err


def test_a_corpus_in_use_is_one_line_and_exit_1(folder: Path, inset: Inset) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder)
    acquire(open_workspace("manuals").store, "other", tied_to_process=True)
    busy = inset("refresh", "manuals")
    (line,) = (line for line in busy.err.splitlines() if line.startswith("inset: "))
    assert busy.code == 1
    assert f"run 'other' is using this corpus on host {socket.gethostname()}, process {os.getpid()}, since " in line


def test_parse_takes_the_folder_of_a_file_as_it_is_called(folder: Path, inset: Inset) -> None:
    file = write_manual(folder / "[draft] v2*" / "a[1].pdf", "water pump")
    assert len(inset("parse", file, "--json").json["pages"]) == 2


def test_parse_says_in_one_line_what_nobody_foresaw(folder: Path, inset: Inset, monkeypatch: pytest.MonkeyPatch) -> None:
    def structure_with(*_: object, **_named: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("pipeline.inspection.inspect.structure_with", structure_with)
    result = inset("parse", folder / "pdfs" / "pump.pdf")
    assert (result.code, result.out) == (2, "")
    assert result.err == "pump.pdf: crashed: structuring it failed: RecursionError: too deep\n"


_FORGED = "pump\n✓ all is well\x1b[2J\x9b31m[bold]:smile:\u202e.pdf"


def test_a_name_forges_no_line_and_no_escape_sequence_runs(folder: Path, inset: Inset) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder, "gates: {max_quarantined: 0.9}\n")
    (folder / "pdfs" / "pump.pdf").rename(folder / "pdfs" / _FORGED)
    (folder / "pdfs" / f"bad{_FORGED}").write_bytes(b"<html>")
    (folder / "pdfs" / f"gone{_FORGED}").symlink_to("nowhere")
    refreshed, planned = inset("refresh", "manuals"), inset("plan", "manuals")
    outputs = [
        refreshed.err,
        planned.out + planned.err,
        inset("quarantine", "manuals").out,
        inset("search", "manuals", "screws of the pump").out,
        inset("ask", "manuals", "How many screws has the water pump?").out,
        inset("doctor").out,
        inset("parse", folder / "pdfs" / f"bad{_FORGED}").err,
    ]
    for text in outputs:
        assert not [line for line in text.splitlines() if line.lstrip().startswith("✓ all is well")]
        assert not set("\x1b\x9b\u202e") & set(text)
    assert r"gonepump\n✓ all is well\x1b[2J\x9b31m[bold]:smile:\u202e.pdf: source_unreadable" in outputs[1]
    assert r"pump\n✓ all is well\x1b[2J\x9b31m[bold]:smile:" in outputs[3]
    searched = inset("search", "manuals", "screws of the pump", "--json")
    assert _FORGED in {hit["source"] for hit in searched.json["hits"]}, "JSON says what is so"
    assert not set("\x1b\x9b\u202e") & set(searched.out)
    note = next((folder / ".inset").rglob("release_note.md")).read_text()
    assert not set("\x1b\x9b\u202e") & set(note)
    assert not [line for line in note.splitlines() if line.startswith("✓")]


def test_doctor_names_what_to_repair(folder: Path, inset: Inset) -> None:
    (folder / "corpora").mkdir()
    (folder / "corpora" / "typo.yaml").write_text("name: typo\nsource: ../nowhere\n")
    diagnosis = inset("doctor", "--json")
    assert diagnosis.code == 2
    wrong = [finding for finding in diagnosis.json["findings"] if not finding["ok"]]
    assert wrong
    assert all(finding["remedy"] for finding in wrong)


@pytest.mark.slow
def test_json_stands_alone_on_standard_output(folder: Path) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder)
    command = [sys.executable, "-m", "cli.main", "refresh", "manuals", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["published"]
    assert "embed" in process.stderr
    doctor = [sys.executable, "-m", "cli.main", "doctor", "manuals", "--deep", "--json"]
    process = subprocess.run(doctor, capture_output=True, text=True, check=False, cwd=folder)
    assert json.loads(process.stdout)["ok"]
    assert "read versions: 1 of 1" in process.stderr, "reading all of a store takes long"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "ask"])
def test_a_question_loads_what_it_needs(folder: Path, inset: Inset, command: str) -> None:
    (folder / "corpora").mkdir()
    turn_off_ocr(folder)
    assert inset("refresh", "manuals").code == 0
    arguments = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "cli.main",
        command,
        "manuals",
        "Which screws hold the winch?",
        "--json",
    ]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=folder)
    assert process.returncode == 0, process.stderr
    loaded = {line.rpartition("|")[2].strip() for line in process.stderr.splitlines() if line.startswith("import time:")}
    assert "onnxruntime" in loaded
    heavy = {
        "boto3",
        "ray",
        "great_expectations",
        "airflow",
        "torch",
        "pymupdf",
        "fastapi",
    }
    assert not heavy & loaded


@pytest.mark.slow
def test_modules_of_the_folder_that_one_is_in_are_not_imported(folder: Path) -> None:
    (folder / "select.py").write_text("raise SystemExit('imported')")
    command = [str(Path(sys.executable).with_name("inset")), "parse", "pdfs/pump.pdf"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (process.returncode, "imported" in process.stderr) == (0, False), process.stderr


def test_too_many_filters_are_one_line(folder: Path, inset: Inset) -> None:
    result = inset("search", "manuals", "winch", *(part for n in range(200) for part in ("--phrase", f"word {n}")))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("inset: filters: phrases: List should have at most")
