"""The command ``inset``: arguments in, progress and results out.

Exit codes: 0 done, 1 an outside failure or a bug, 2 the user's mistake or an unreadable document, 3 refused by a gate.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from pydantic import BaseModel, ValidationError
from rich.filesize import decimal

from cli.agents import mcp
from cli.key import key
from cli.status import status
from cli.step import step
from cli.terminal import (
    CorpusArgument,
    Json,
    print_json,
    print_markdown,
    print_table,
    reporting,
    say,
    show,
    show_marked,
    show_text,
    show_title,
)
from schemas.errors import OF_THE_SOURCE, BadInputError, Failure, FailureCode, GateError, InsetError, UserError
from schemas.extensions import extensions
from schemas.models import MULTILINGUAL
from schemas.stages import Step

if TYPE_CHECKING:
    from pipeline.published.corpus import PublishedCorpus
    from schemas.answer_presets import AnswerPresetInfo
    from schemas.evidence import Filters, Hit, PageRange
    from schemas.inspection import InspectedPage
    from schemas.retrieval import PresetInfo
    from schemas.trace import TraceStep

_DAYS = ["%Y-%m-%d", "%Y-%m", "%Y"]
_TIME = "%Y-%m-%d %H:%M"
"""Times of the command are in UTC."""
_MOVES = 10
"""Last moves of the live version that are shown."""
_EXCERPT = 300
"""Characters shown of a hit."""

app = typer.Typer(
    help="Turn technical PDFs into a versioned, searchable index with every figure in its place.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _show_release(requested: bool) -> None:
    if requested:
        from schemas.release import RELEASE

        sys.stdout.write(f"inset {RELEASE}\n")
        raise typer.Exit


@app.callback()
def _options(
    release: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_release, help="Show the release of Inset, and exit.")
    ] = False,
) -> None:
    """Turn technical PDFs into a versioned, searchable index with every figure in its place."""


Reason = Annotated[str | None, typer.Option(help="Why; kept in the corpus's audit log.")]
_NAMES = ", or live, previous, latest"
VersionOption = Annotated[str | None, typer.Option(help=f"A version{_NAMES}; by default live.")]

REFUSED = 3
_NAMED = 10

_RETRY = "correct what is in quarantine, or try it again: inset quarantine {corpus} --replay"


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The corpus's name.")] = "manuals",
    source: Annotated[
        str, typer.Option(help="A folder, a glob or s3://bucket/prefix; relative to the working folder.")
    ] = "pdfs",
    as_json: Json = False,
) -> None:
    """Write a commented corpus file, corpora/NAME.yaml."""
    from pipeline.corpus.corpora import write_corpus_file
    from pipeline.inspection.source_language import text_model_for

    model = text_model_for(source)
    path = write_corpus_file(name, source, model)
    if as_json:
        print_json({"corpus": name, "file": str(path), "text_model": model})
        return
    if model == MULTILINGUAL:
        say(f"a fifth or more of the PDFs are not in English: embeddings.text is {MULTILINGUAL}")
    say(f"wrote {path}; look it over, then run: inset refresh {name}")


@app.command()
def plan(corpus: CorpusArgument, as_json: Json = False) -> None:
    """Show what a refresh would do, without doing it."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.stages.plan import plan as make_plan
    from schemas.versions import in_words

    corpus_plan = make_plan(open_workspace(corpus), "plan")
    if as_json:
        summary = corpus_plan.summary.model_dump(mode="json")
        print_json({"outcome": corpus_plan.outcome, "live": corpus_plan.parent, **summary})
        return
    say(f"{corpus}: {_OUTCOMES[corpus_plan.outcome]}; live is {corpus_plan.parent or 'nothing yet'}")
    rows = [(name, getattr(corpus_plan.summary, name)) for name in ("new", "changed", "gone", "kept", "to_parse")]
    print_table("", ("sources", "count"), rows)
    for name, expected in corpus_plan.summary.captions.items():
        say(f"  {name}: {in_words(expected)}")
    for name, gpu_work in corpus_plan.summary.gpu.items():
        say(f"  GPU, {name}: {gpu_work}")
    for advice in corpus_plan.summary.advice:
        say(f"  {advice}")
    if corpus_plan.summary.forgotten:
        say(f"  {_forgotten_note(corpus_plan.summary.forgotten)}")
    for kind, names in corpus_plan.summary.sources.items():
        for source in names[:20]:
            show(f"  {kind:<8}{source}")
        if len(names) > 20:
            show(f"  {kind:<8}… and {len(names) - 20} more")
    for row in corpus_plan.carried:
        if row.code in OF_THE_SOURCE:
            say(f"  quarantine: {row.source}: {row.code}: {row.message}")


def _forgotten_note(forgotten: int) -> str:
    return f"{forgotten} of the source's PDFs are left out: their documents were forgotten"


_OUTCOMES = {
    "build": "a new version would be built",
    "unchanged": "nothing to do",
    "ready": "a version of these inputs is built already and would be published",
    "refused": "a version of these inputs was refused by a gate and is not built again",
    "held": "a version of these inputs is built, and held back since a rollback",
}


@app.command()
def refresh(corpus: CorpusArgument, as_json: Json = False) -> None:
    """Bring a corpus up to date: plan, parse, enrich, assemble, check, build, evaluate, publish."""
    _refresh(corpus, as_json=as_json, options={})


def _refresh(corpus: str, *, as_json: bool, options: Mapping[str, object]) -> None:
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.publication import override_hint, readable_pointer
    from pipeline.run import is_refused
    from pipeline.run import refresh as run
    from schemas.versions import RunOptions

    workspace = open_workspace(corpus)
    with reporting() as report:
        result = run(workspace, report=report, options=RunOptions.model_validate(options))
    was_refused = is_refused(workspace, result)
    if as_json:
        print_json(result)
    else:
        counts = result.counts
        pointer = readable_pointer(workspace.store)
        if result.published:
            say(f"{corpus}: version {result.version} published")
        elif was_refused:
            say(f"{corpus}: version {result.version} refused by a gate")
        elif pointer is not None and pointer.version != result.version:
            say(f"{corpus}: version {result.version} not published: the corpus is held since a rollback")
            say(f"to publish it, and end the hold: inset publish {corpus} {result.version}")
        else:
            say(f"{corpus}: nothing changed: version {result.version} stays live")
        say(
            f"{counts.documents} documents, {counts.pages} pages, {counts.tags} tags, {counts.rows} rows; "
            f"{counts.partly_read} partly read, {counts.quarantined} in quarantine"
        )
        if result.plan.forgotten:
            say(f"  {_forgotten_note(result.plan.forgotten)}")
        if gone_sources := result.plan.sources.get("gone"):
            and_more = f" and {len(gone_sources) - _NAMED} more" if len(gone_sources) > _NAMED else ""
            say(f"  gone from the source: {', '.join(gone_sources[:_NAMED])}{and_more}")
        for failure, pages in _by_document(result.failures):
            unread_status = "kept:" if failure.code is FailureCode.EARLIER_KEPT else "quarantine:"
            parse_status = f"partly read: {_page_words(pages)} of" if pages else unread_status
            status = "to describe:" if failure.step == Step.CAPTION else parse_status
            say(f"  {status} {failure.source}: {failure.code}: {failure.message}")
        for gate in result.gates:
            if not gate.passed:
                say(f"  {'refused' if was_refused else 'passed by override'}: {gate.gate}: {gate.message}")
        if was_refused:
            say(override_hint(workspace.corpus.name, result.version or ""))
        elif counts.quarantined:
            say(_RETRY.format(corpus=corpus))
    if was_refused:
        raise typer.Exit(REFUSED)


def _by_document(failures: Sequence[Failure]) -> Iterator[tuple[Failure, str]]:
    """Merge failures that differ in their page only; yield one of them with the pages, such as ``3-7, 12``."""
    failures_by_key: dict[tuple[str, str, str, str], list[Failure]] = {}
    for failure in failures:
        failures_by_key.setdefault((failure.source, failure.step, failure.code, failure.message), []).append(failure)
    for failures_of_key in failures_by_key.values():
        pages = sorted({failure.page for failure in failures_of_key if failure.page is not None})
        runs = (
            [page for _, page in run]
            for _, run in groupby(enumerate(pages), lambda page_index: page_index[1] - page_index[0])
        )
        yield failures_of_key[0], ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _page_words(pages: str) -> str:
    return f"page {pages}" if pages.isdigit() else f"pages {pages}"


@app.command()
def versions(corpus: CorpusArgument, as_json: Json = False) -> None:
    """List a corpus's versions, and who moved the live version lately."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.audit import read_events
    from pipeline.records.publication import list_versions

    workspace = open_workspace(corpus)
    all_versions = list_versions(workspace.store, workspace.corpus.name)
    moves = read_events(workspace.store, _MOVES)
    if as_json:
        print_json(all_versions.model_dump(mode="json") | {"moves": [move.model_dump(mode="json") for move in moves]})
        return
    if not all_versions.versions:
        say(f"{corpus}: no version yet; run: inset refresh {corpus}")
        return
    columns = ("version", "state", "created (UTC)", "documents", "quarantined", "rows", "parent")
    rows = [
        (
            *(row.version, f"{row.state}, previous" if row.version == all_versions.previous else row.state),
            *(f"{row.created:{_TIME}}", row.documents, row.quarantined, row.rows, row.parent),
        )
        for row in all_versions.versions
    ]
    print_table("", columns, rows, fold=False)
    if moves:
        moved = [(f"{move.at:{_TIME}}", move.action, move.to_version, move.by, move.reason) for move in moves]
        print_table("", ("moved (UTC)", "action", "version", "by", "reason"), moved, fold=False)
    for row in all_versions.versions:
        if row.override is not None:
            say(
                f"{row.version}: gates overridden on {row.override.at:{_TIME}} UTC by {row.override.by}: {row.override.reason}"
            )
    if all_versions.problem is not None:
        say(all_versions.problem)
    if all_versions.held:
        say(f"{corpus} is held since a rollback: refreshes publish nothing until: inset publish {corpus} VERSION")


@app.command()
def diff(
    corpus: CorpusArgument,
    base: Annotated[str, typer.Argument(metavar="A", help=f"A version{_NAMES}.")],
    version: Annotated[str, typer.Argument(metavar="B", help="A later one.")],
    as_json: Json = False,
) -> None:
    """Show what changed from one version to another."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.differences import compare_versions
    from tasks.versions.diff import release_note

    differences = compare_versions(open_workspace(corpus), base, version)
    if as_json:
        print_json(differences)
        return
    print_markdown(release_note(differences))


@app.command()
def rollback(
    corpus: CorpusArgument,
    version: Annotated[str | None, typer.Argument(help=f"The version to go back to{_NAMES}; by default previous.")] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Make an older version live again, and hold the corpus at it."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.stages.publish import roll_back_version

    pointer = roll_back_version(open_workspace(corpus), version, reason=reason)
    if as_json:
        print_json(pointer)
        return
    say(f"{corpus}: {pointer.version} is live again; refreshes publish nothing until: inset publish {corpus} VERSION")


@app.command()
def publish(
    corpus: CorpusArgument,
    version: Annotated[str, typer.Argument(help="A version that passed its gates, or previous, latest.")],
    override: Annotated[
        str | None, typer.Option(metavar="REASON", help="Publish a refused version; the reason is stored with it.")
    ] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Make a version live, and end a hold."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.stages.publish import make_live

    pointer = make_live(open_workspace(corpus), version, override=override, reason=reason)
    if as_json:
        print_json(pointer)
        return
    say(f"{corpus}: {pointer.version} is live")


@app.command()
def prune(
    corpus: CorpusArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this option nothing is removed.")] = False,
    as_json: Json = False,
) -> None:
    """Show what no kept version needs, or remove it."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.upkeep.prune import prune as run

    with reporting() as report:
        result = run(open_workspace(corpus), dry_run=not yes, report=report)
    if as_json:
        print_json(result)
        return
    table_rows = [*(("versions", name, 1) for name in result.versions)]
    table_rows += [("objects", name, count) for name, count in result.objects.items()]
    table_rows += [("records", name, count) for name, count in result.records.items()]
    if not table_rows:
        say(f"{corpus}: there is nothing that no kept version needs")
        return
    print_table("", ("what", "where", "count"), table_rows, fold=False)
    size = decimal(result.bytes)
    say(
        f"{corpus}: removed, {size}"
        if yes
        else f"{corpus}: nothing was removed yet; to remove it, {size}: inset prune {corpus} --yes"
    )


@app.command()
def forget(
    corpus: CorpusArgument,
    source: Annotated[str, typer.Argument(help="A PDF as search shows it, below the corpus's source, or its SHA-256.")],
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without this option nothing is deleted.")] = False,
    again: Annotated[
        bool, typer.Option("--readmit", help="Let a forgotten document be taken in again by the next refresh.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete a document from every version and from all that is stored of it, for good."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.upkeep.forget import forget as run
    from pipeline.upkeep.forget import readmit

    if again:
        readmitted = readmit(open_workspace(corpus), source)
        if as_json:
            print_json({"corpus": corpus, "documents": readmitted})
            return
        say(f"{corpus}: {source} may be taken in again; to do so: inset refresh {corpus}")
        return
    with reporting() as report:
        result = run(open_workspace(corpus), source, dry_run=not yes, reason=reason, report=report)
    if as_json:
        print_json(result)
        return
    table_rows = [("document", name, 1) for name in result.documents]
    table_rows += [("source", name, 1) for name in result.sources]
    table_rows += [("version", name, 1) for name in result.versions]
    table_rows += [("objects", name, count) for name, count in result.objects.items()]
    table_rows += [("records", name, count) for name, count in result.records.items()]
    print_table("", ("what", "where", "count"), table_rows, fold=False)
    if not yes:
        say(f"{corpus}: nothing was deleted yet; to delete it for good: inset forget {corpus} {source} --yes")
        return
    say(f"{corpus}: {source} is forgotten: no kept version holds it, and refreshes leave it out")
    say("copies elsewhere stay: the source's own file, mirrors, backups, older object versions of a bucket")


@app.command()
def mirror(
    corpus: CorpusArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="CORPUS", help="The corpus whose file names the other store and engine.")
    ],
    version: VersionOption = None,
    as_json: Json = False,
) -> None:
    """Copy a version to another store or engine, without computing anything again."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.upkeep.mirror import mirror as run

    with reporting() as report:
        result = run(open_workspace(corpus), open_workspace(to), version, report)
    if as_json:
        print_json(result)
        return
    say(f"{result.version} is in {result.store}: {result.rows} rows, {result.objects} objects copied")
    if not result.live:
        say(f"it isn't live there; to make it so: inset publish {to} {result.version}")


@app.command()
def quarantine(
    corpus: CorpusArgument,
    replay: Annotated[bool, typer.Option("--replay", help="Try the documents in quarantine again.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help="Publish what can be read of this source, though an earlier document is kept."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what the last refresh left out and why, or try it again."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.operations.quarantine import REMEDIES
    from pipeline.records.publication import manifests
    from pipeline.records.quarantine import read_failures

    if replay or accept:
        _refresh(corpus, as_json=as_json, options={"replay": replay, "accept": accept or []})
        return
    workspace = open_workspace(corpus)
    last = next(iter(manifests(workspace.store)), None)
    failures = (read_failures(workspace.store, last) if last else None) or []
    if as_json:
        print_json(
            {"version": last.version if last else None, "failures": [row.model_dump(mode="json") for row in failures]}
        )
        return
    if not failures:
        say(f"{corpus}: nothing is in quarantine")
        return
    columns = ("source", "page", "step", "code", "message")
    rows = [(row.source, pages, row.step, row.code, row.message) for row, pages in _by_document(failures)]
    print_table("", columns, rows)
    for code in dict.fromkeys(row.code for row in failures):
        say(f"{code}: {REMEDIES[code]}")
    say(_RETRY.format(corpus=corpus))


@app.command()
def search(
    corpus: CorpusArgument,
    query: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    preset: Annotated[str | None, typer.Option(help="A retrieval preset; 'inset presets CORPUS' lists them.")] = None,
    steps: Annotated[
        list[str] | None, typer.Option("--set", help="Override a step of the preset: select.diversity=0.5.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", min=1, max=1000, help="Maximum hits; by default 10.")] = None,
    document: Annotated[list[str] | None, typer.Option(help="Only this document: id, source or file name.")] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Only sources that match this glob, such as 'phones/**'.")
    ] = None,
    pages: Annotated[
        list[str] | None,
        typer.Option("--pages", "--page", help="Only these pages, as the PDF counts them: 3, 3-9 or 12-."),
    ] = None,
    page_label: Annotated[
        list[str] | None, typer.Option(help="Only the page on which this is printed, or that the PDF calls so: iv, A-12.")
    ] = None,
    section: Annotated[
        list[str] | None, typer.Option(help="Only this section: its title, or its path such as 'Service > Filters'.")
    ] = None,
    modality: Annotated[list[str] | None, typer.Option(help="Only text, table, figure or page.")] = None,
    has_figure: Annotated[
        bool | None, typer.Option("--has-figure/--no-figure", help="Only hits with a figure, or without.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(formats=_DAYS, help="Only PDFs whose metadata says changed, or else made, that day or later."),
    ] = None,
    until: Annotated[datetime | None, typer.Option(formats=_DAYS, help="Only PDFs of that day or earlier.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="Only documents in this language: en, de.")] = None,
    doc_type: Annotated[
        list[str] | None, typer.Option("--type", help="Only documents of this type, by doc_types of the corpus file.")
    ] = None,
    phrase: Annotated[list[str] | None, typer.Option(help="Only hits with this exact phrase.")] = None,
    group: Annotated[str | None, typer.Option(help="Show the best hit of each page or document: page, document.")] = None,
    highlight: Annotated[
        bool, typer.Option("--highlight", help="Also mark the sentence nearest in meaning, which takes longer.")
    ] = False,
    version: VersionOption = None,
    image: Annotated[
        Path | None,
        typer.Option(help="A picture to search by, alone or with QUERY, where the corpus has a model of pictures."),
    ] = None,
    like: Annotated[str | None, typer.Option(help="Instead of QUERY: show figures like this one, given by its id.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    as_json: Json = False,
) -> None:
    """Search the live version."""
    from pipeline.published.corpus import open_published
    from schemas.evidence import Filters, Modality
    from schemas.retrieval import GroupBy, Query

    for option, names, allowed in (
        ("modality", modality, set(Modality)),
        ("group", [group] if group else [], set(GroupBy)),
    ):
        if unknown := [name for name in names or [] if name not in allowed]:
            raise UserError(f"--{option} {unknown[0]}: use one of {', '.join(sorted(allowed))}")
    if unworded := [words for words in phrase or [] if not any(map(str.isalnum, words))]:
        raise UserError(f"--phrase {unworded[0]!r}: write at least one letter or digit")
    filters = _filters(
        documents=document or [],
        sources=source or [],
        page_ranges=[_page_range(page_range) for page_range in pages or []],
        page_labels=page_label or [],
        sections=section or [],
        modalities=[Modality(name) for name in modality or []],
        has_figure=has_figure,
        since=since.date() if since else None,
        until=until.date() if until else None,
        languages=language or [],
        doc_types=doc_type or [],
        phrases=phrase or [],
    )
    query = None if query is None else _question(query)
    output_options = {"--group": group, "--highlight": highlight, "--trace": trace}
    if like is not None:
        narrowing_options = {"filters": filters != Filters(), "--preset": preset, "--set": steps}
        _refuse("--like", {"QUERY": query, "--image": image, **narrowing_options, **output_options})
    elif not query and image is None:
        raise UserError("what should be searched for? Give a QUERY or an --image")
    search_query = Query(
        text=query or "",
        picture=None if image is None else _read(image),
        preset=preset,
        steps=_changes(steps or []),
        k=k,
        filters=filters,
        version=version,
        group_by=GroupBy(group) if group else None,
        highlight=highlight or None,
        trace=trace,
    )
    published = open_published(corpus)
    if like is not None:
        _show_similar(published, like, k, version, as_json=as_json)
        return
    result = published.search(search_query)
    if as_json:
        print_json(result)
    else:
        _show_hits(result.hits, group)
        _show_trace(result.trace or [])


def _question(words: str) -> str:
    """Return a question stripped of white space."""
    if any("\ud800" <= character <= "\udfff" for character in words):  # Python's escapes of undecodable bytes
        raise UserError("the question holds bytes that are not UTF-8; write it in UTF-8")
    return words.strip()


def _refuse(option: str, other_options: Mapping[str, object]) -> None:
    """Refuse options that another one would ignore."""
    if conflicting := [name for name, value in other_options.items() if value]:
        raise UserError(f"{option} takes no {' and no '.join(conflicting)}; leave that out")


def _read(image: Path) -> bytes:
    try:
        return image.read_bytes()
    except OSError as error:
        raise UserError(f"--image {image}: {error.strerror}") from error


def _show_similar(
    published: "PublishedCorpus", figure_id: str, k: int | None, version: str | None, *, as_json: bool
) -> None:
    from pipeline.published.version import DEFAULT_K

    with published.opened(version) as opened:
        similar_figures = opened.similar(figure_id, k=k or DEFAULT_K)
    if as_json:
        print_json(similar_figures)
        return
    say(f"by vectors {similar_figures.space}")
    _show_hits(similar_figures.hits)


def _filters(**given: Any) -> "Filters":
    """Return filters of options.

    Raises:
        UserError: There are too many of one, or one is too long.
    """
    from schemas.evidence import Filters

    try:
        return Filters(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"filters: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _page_range(page_range: str) -> "PageRange":
    """Parse an option such as ``3``, ``3-9`` or ``12-``."""
    from pydantic import ValidationError

    from schemas.evidence import PageRange

    first, dash, last = (part.strip() for part in page_range.partition("-"))
    try:
        pages = PageRange(first=int(first), last=int(last or first) if last or not dash else None)
    except (ValueError, ValidationError):
        pages = None
    if pages is None or (pages.last is not None and pages.last < pages.first):
        raise UserError(f"--pages {page_range}: write a page such as 3, or pages such as 3-9 or 12-, counted from 1")
    return pages


def _changes(settings: Sequence[str]) -> dict[str, Any]:
    """Parse settings such as ``select.diversity=0.5``, with values in YAML."""
    import yaml

    steps: dict[str, Any] = {}
    for setting in settings:
        path, separator, value = setting.partition("=")
        *outer, name = path.split(".")
        parent = steps
        for part in outer:
            parent = parent.setdefault(part, {})
            if not isinstance(parent, dict):
                raise UserError(f"--set {setting}: {part} is set to a value already")
        try:
            parent[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(
                f"--set {setting}: the value can't be read; quote it, such as --set 'fuse.method=rrf'"
            ) from error
        if not (separator and name):
            raise UserError(f"--set {setting}: write STEP.KEY=VALUE, such as select.diversity=0.5")
    return steps


def _show_trace(steps: "Sequence[TraceStep]") -> None:
    if steps:
        rows = [
            (step.step, f"{step.seconds * 1000:.1f}", step.candidates, _shortened(step.asked), step.note) for step in steps
        ]
        print_table("steps", ("step", "ms", "rows", "asked", "note"), rows)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


@app.command()
def presets(corpus: CorpusArgument, as_json: Json = False) -> None:
    """List the retrieval and answer presets of a corpus, and what is missing for each."""
    from pipeline.published.corpus import open_published

    published = open_published(corpus)
    searches, answers = published.presets(), published.answer_presets()
    if as_json:
        infos_by_kind: dict[str, Sequence[BaseModel]] = {"presets": searches, "answers": answers}
        print_json({name: [info.model_dump(mode="json") for info in infos] for name, infos in infos_by_kind.items()})
        return
    _show_presets("preset", searches)
    _show_presets("answer", answers)


def _show_presets(kind: str, infos: "Iterable[PresetInfo | AnswerPresetInfo]") -> None:
    for source, source_infos in groupby(infos, lambda preset: preset.source):
        rows = [(preset.name, preset.sentence, "; ".join(preset.missing)) for preset in source_infos]
        print_table(source, (kind, "what it does", "what is missing"), rows)


def _show_hits(hits: "Sequence[Hit]", group: str | None = None) -> None:
    from tasks.answering.highlight import excerpt

    for rank, hit in enumerate(hits, 1):
        kind = f", {hit.doc_type}" if hit.doc_type else ""
        show(f"{hit.source}, {hit.regions[0].page_name}{kind}  ({hit.modality}, {hit.score:.4f})", bold=f"{rank}. ")
        marked_spans = [*hit.highlights, *([hit.nearest_sentence] if hit.nearest_sentence else [])]
        start, end = excerpt(len(hit.text), marked_spans, _EXCERPT)
        show_marked(hit.text, start, end, marks=hit.highlights, sentence=hit.nearest_sentence)
        if hit.more:
            say_more = "on this page" if group == "page" else "in this document"
            show(f"   and {hit.more} more {say_more}")
    if not hits:
        say("nothing found")


@app.command()
def ask(
    corpus: CorpusArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    answer: Annotated[
        str | None,
        typer.Option(help="An answer preset; 'inset presets CORPUS' lists them. By default that of the corpus file."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A retrieval preset; by default that of the answer preset.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Override a setting, answer.max_images=4, or a step of retrieval, select.diversity=0.5."
        ),
    ] = None,
    document: Annotated[
        list[str] | None, typer.Option(help="Answer from this document: its id, source or file name.")
    ] = None,
    pages: Annotated[list[str] | None, typer.Option(help="Answer from these pages, such as 3 or 3-9.")] = None,
    page_label: Annotated[
        list[str] | None, typer.Option(help="Answer from the page on which this is printed, such as iv or A-12.")
    ] = None,
    image: Annotated[Path | None, typer.Option(help="A picture that goes with the question.")] = None,
    version: VersionOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the rest of each passage too.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question, figures in place, a citation for each part."""
    from cli.answers import show_answer
    from pipeline.published.corpus import open_published
    from schemas.retrieval import AnswerQuery

    if not (text := _question(question)):
        raise UserError("what should be answered? Give a QUESTION")
    changes = _changes(settings or [])
    overridden = changes.pop("answer", {})
    if not isinstance(overridden, dict):
        raise UserError("--set answer=…: write answer.KEY=VALUE, such as answer.max_images=4; --answer names a preset")
    query = AnswerQuery(
        text=text,
        answer=answer,
        settings=overridden,
        preset=preset,
        steps=changes,
        picture=None if image is None else _read(image),
        filters=_filters(
            documents=document or [],
            page_ranges=[_page_range(page_range) for page_range in pages or []],
            page_labels=page_label or [],
        ),
        version=version,
        trace=trace,
    )
    published = open_published(corpus)
    if as_json:
        print_json(published.answer(query))
        return
    result = show_answer(published.answer_events(query), everything=everything)
    _show_trace(result.trace or [])


@app.command()
def parse(
    file: Annotated[Path, typer.Argument(help="A PDF.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Write its figures and the text of its pages there.")] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Draw its pages there too, with index.html, to inspect what was found.")
    ] = False,
    contents: Annotated[bool, typer.Option("--contents", help="Print its table of contents instead of its pages.")] = False,
    tagged_pdf: Annotated[
        bool,
        typer.Option("--tagged-pdf", help="Write tagged.pdf there too: the PDF with a tag at each figure."),
    ] = False,
    ocr: Annotated[
        bool, typer.Option("--ocr", help="Recognise text of scanned pages and figures too, which takes seconds for each.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Parse a single PDF and show the result."""
    from pipeline.inspection.inspect import inspect
    from pipeline.records.tagged_copies import write_tagged
    from schemas.corpus.captions import CaptionOptions
    from schemas.models import NONE

    if folder is None and (view or tagged_pdf):
        raise UserError(f"{'--view' if view else '--tagged-pdf'} needs --out FOLDER, where it is written")
    with reporting() as report:
        captions = CaptionOptions() if ocr else CaptionOptions(ocr=NONE)
        document = inspect(file, out=folder, view=view, captions=captions, report=report)
    if tagged_pdf and folder is not None and document.pages:
        write_tagged(file, document, folder / "tagged.pdf")
    if as_json:
        print_json(document)
    else:
        if contents:
            show_text(document.contents)
        else:
            _show_pages(document.pages)
        for failure, pages in _by_document(document.failures):
            page_note = f", {_page_words(pages)}" if pages else ""
            say(f"{failure.source}{page_note}: {failure.code}: {failure.message}")
        if folder is not None and document.pages:
            say(f"wrote pages and figures to {folder}" + (f"; look at {folder / 'index.html'}" if view else ""))
    if not document.pages:
        raise typer.Exit(2)


def _show_pages(pages: "Sequence[InspectedPage]") -> None:
    for page in pages:
        show_title(f"page {page.label} (PDF page {page.page})" if page.label else f"page {page.page}")
        show_text(page.tagged_text)
        for part in page.furniture:
            box = ", ".join(f"{value:.0f}" for value in part.bbox)
            show(f"  {part.role.replace('_', ' ')} at ({box}): {' '.join(part.text.split())}")
        for figure in page.figures:
            box = ", ".join(f"{value:.0f}" for value in figure.bbox)
            label = figure.tag or f"no tag ({figure.reason})"
            show(f"  {figure.role} {figure.kind} at ({box}): {label} {figure.caption}".rstrip())


@app.command()
def export(
    corpus: CorpusArgument,
    file: Annotated[Path | None, typer.Option("--out", metavar="FILE.parquet", help="The file to write.")] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the tables instead, a Parquet file each with typed columns, and tables.parquet, which lists them.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --tables: CSV in place of Parquet.")] = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="beyond-text: the Parquet of the paper Beyond Text, with a row per image of a page (RGB PNG) and one per page "
            "without images; columns index, doc_id, doc_title, page_number, text, url, has_image, image_id, image_bytes.",
        ),
    ] = "beyond-text",
    images: Annotated[
        str,
        typer.Option(
            help="paper: the paper's filter (embedded, shorter side over 50 px, over 1024 bytes). none: every figure. "
            "FILE.drops.parquet lists what is left out, with the reason."
        ),
    ] = "paper",
    unique_texts: Annotated[bool, typer.Option("--unique-texts", help="Write each text once, with all its pages.")] = False,
    version: VersionOption = None,
    as_json: Json = False,
) -> None:
    """Write the live version's pages and figures to a Parquet file, or its tables to a folder, for other tools."""
    from dataclasses import asdict

    if (file is None) == (tables is None):
        raise UserError("name one of --out FILE.parquet, for pages and figures, and --tables FOLDER")
    if tables is not None:
        _export_tables(corpus, tables, version, csv=csv, as_json=as_json)
        return
    assert file is not None
    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.export import export_pages
    from schemas.beyond_text import ExportFormat, ImageFilter

    if form not in set(ExportFormat):
        raise UserError(f"--format {form}: use {', '.join(ExportFormat)}")
    if images not in set(ImageFilter):
        raise UserError(f"--images {images}: use one of {', '.join(ImageFilter)}")
    with reporting() as report:
        summary = export_pages(
            open_workspace(corpus), file, version=version, images=ImageFilter(images), unique=unique_texts, report=report
        )
    if as_json:
        print_json(asdict(summary))
        return
    say(
        f"{summary.file}: {summary.rows} rows of {summary.pages} pages with {summary.images} images, from {summary.version}"
    )
    if summary.dropped:
        say(f"{summary.drops}: {summary.dropped} images left out, with the reasons")


def _export_tables(corpus: str, folder: Path, version: str | None, *, csv: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.export_tables import export_tables

    with reporting() as report:
        summary = export_tables(open_workspace(corpus), folder, version=version, csv=csv, report=report)
    if as_json:
        print_json(asdict(summary))
        return
    say(
        f"{summary.folder}: {summary.tables} tables with {summary.rows} rows of {summary.documents} documents, "
        f"from {summary.version}"
    )


@app.command()
def serve(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to serve; by default all.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; loopback by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port.")] = 8750,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further host name of the service, such as search.example.org or *.example.org; '*' for any. May be "
            "repeated. Loopback and --host are always allowed.",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, help="Seconds that a search may take; an answer may take five times as long.")
    ] = 60.0,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="INSET_KEYS",
            help="Answer only requests with a key of this file; 'inset key' makes keys. It is read again when it changes.",
        ),
    ] = None,
    trusted_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A header in which a proxy names the user, such as X-Forwarded-User; believed from loopback and "
            "--trusted-proxy alone. Its users see all corpora.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Address or network of a proxy, such as 10.0.0.0/8. May be repeated."),
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Serve other addresses than loopback without keys, to everyone who reaches them.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Pages of this origin may call the service, such as https://example.org. May be repeated.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer; one core each.")] = 1,
    redis: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="INSET_REDIS",
            help="A Redis, such as redis://localhost:6379/0, that counts the requests of keys for all workers and hosts.",
        ),
    ] = None,
    log_questions: Annotated[bool, typer.Option("--log-questions", help="Log the text of questions.")] = False,
    slow: Annotated[float, typer.Option(min=0, help="Seconds above which a request is logged as slow.")] = 5.0,
    page_cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="INSET_PAGE_CACHE",
            help="Where pictures of pages are kept, for all workers; by default inset/pages in the user's cache folder.",
        ),
    ] = None,
    page_cache_mb: Annotated[
        int, typer.Option(min=0, help="MiB of kept pictures of pages; the least recently used are removed. 0 keeps none.")
    ] = 1024,
    as_json: Json = False,
) -> None:
    """Serve search, answers and the web page."""
    from query_service.serve import serve as serve_app
    from query_service.workers import ServiceOptions, serve_workers

    options = ServiceOptions(
        corpora=corpora or [],
        host=host,
        allow_hosts=allow_host or [],
        deadline_s=deadline,
        keys=keys,
        trusted_header=trusted_header,
        trusted_proxies=trusted_proxy or [],
        is_open=open_to_all,
        redis=redis,
        origins=cors_origin or [],
        slow_s=slow,
        log_questions=log_questions,
        page_cache=page_cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inset" / "pages",
        page_cache_mb=page_cache_mb,
    )
    served = options.open()
    if as_json:
        print_json({"address": f"http://{host}:{port}/"})
    if workers == 1:
        serve_app(served, host=host, port=port)
    else:
        serve_workers(workers, options, port)


@app.command()
def doctor(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to check; by default all.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every stored object, to find damage.")] = False,
    as_json: Json = False,
) -> None:
    """Report what is missing, misconfigured or damaged, and how to repair it."""
    from pipeline.upkeep.doctor import diagnose

    diagnosis = diagnose(corpora or [], deep=deep)
    if as_json:
        print_json(diagnosis)
    else:
        for finding in diagnosis.findings:
            mark = "!" if finding.warning else "✓" if finding.ok else "✗"
            for line in f"{finding.subject}: {finding.message}".split("\n"):
                show(f"{mark} {line}")
            if finding.remedy and (finding.warning or not finding.ok):
                show(f"    → {finding.remedy}")
    if not diagnosis.ok:
        raise typer.Exit(2)


app.command()(key)
app.command()(mcp)
app.command()(status)
app.command()(step)
for _command in extensions("inset.commands"):
    if isinstance(_loaded := _command.load(), typer.Typer):
        app.add_typer(_loaded, name=_command.name)
    else:
        app.command(_command.name)(_loaded)


def main() -> NoReturn:
    """Run the command; known errors are one line and an exit code."""
    try:
        app()
    except GateError as error:
        _fail(error, REFUSED)
    except (UserError, BadInputError) as error:
        _fail(error, 2)
    except InsetError as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        file_prefix = f"{error.filename}: " if error.filename else ""
        _fail(InsetError(f"{file_prefix}{error.strerror or error}; correct that, then try again"), 1)
    sys.exit(0)


class _NoPandas(MetaPathFinder, Loader):
    """Makes the import of pandas fail."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> None:
        raise ModuleNotFoundError(f"{spec.name} isn't needed here", name=spec.name)

    def exec_module(self, _module: object) -> None:
        pass


def run() -> NoReturn:
    """Run the command in a process of its own.

    pyarrow imports pandas, where it is installed, at the first array made of a list: half of the start of a search, which has
    no use for it.
    """
    if sys.argv[1:2] in (["search"], ["ask"]):
        sys.meta_path.insert(0, _NoPandas())
    main()


def _fail(error: InsetError, code: int) -> NoReturn:
    for line in error.message.split("\n"):
        say(f"inset: {line}")
    sys.exit(code)


if __name__ == "__main__":
    run()
