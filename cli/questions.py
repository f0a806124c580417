"""Commands that search and answer."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer
from pydantic import ValidationError

from cli.terminal import (
    CorpusArgument,
    Json,
    ReaderOption,
    VersionOption,
    principals_of,
    print_json,
    print_table,
    say,
    show,
)
from schemas.errors import InsetError, UserError
from schemas.filters import Filters, Option, where_of

if TYPE_CHECKING:
    from pipeline.published.corpus import PublishedCorpus
    from schemas.answers import AnswerPresetInfo, AnswerResult
    from schemas.evidence import Hit, TraceStep
    from schemas.retrieval import AnswerQuery, PresetInfo

_EXCERPT = 300
"""Characters shown of a hit."""

_OPTIONS = {
    name: option for name, field in Filters.model_fields.items() for option in field.metadata if isinstance(option, Option)
}


def takes_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options, which ``command`` receives as its keyword ``filters``."""

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        texts_by_filter = {name: arguments.pop(name) for name in _OPTIONS}
        command(**arguments, filters=_filters(texts_by_filter))

    parameters = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "filters"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, option))
        for name, option in _OPTIONS.items()
    ]
    with_options.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*parameters, *options)}
    return with_options


def _annotation(name: str, option: Option) -> Any:
    kind: Any = Filters.model_fields[name].annotation
    text: Any = bool if kind == bool | None else list[str] if get_origin(kind) in (list, dict) else str
    return Annotated[text | None, typer.Option(*option.spellings, help=option.help, rich_help_panel="Filters")]


def _filters(texts_by_filter: Mapping[str, Any]) -> Filters:
    """Return filters of options; ``UserError`` if one can't be read or is too long, or there are too many of one."""
    fields: dict[str, Any] = {}
    for name, texts in texts_by_filter.items():
        if isinstance(texts, list) and name == "where":
            fields[name] = _conditions(texts)
        elif isinstance(texts, list):
            fields[name] = [_parsed(name, text) for text in texts]
        elif texts is not None:
            fields[name] = texts if isinstance(texts, bool) else _parsed(name, texts)
    try:
        return Filters(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"filters: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _conditions(texts: Sequence[str]) -> dict[str, Any]:
    try:
        return where_of(texts)
    except ValueError as error:
        raise UserError(f"--where {' '.join(texts)}: {error}") from error


def _parsed(name: str, text: str) -> Any:
    option = _OPTIONS[name]
    try:
        return option.parse(text)
    except ValueError as error:
        raise UserError(f"{option.spellings[0]} {text}: {error}") from None


def _open(corpus: str, names: Sequence[str] | None) -> "PublishedCorpus":
    """Return a corpus as the reader of ``--as`` sees it; without one nothing is hidden, and a line says so."""
    from pipeline.published.corpus import open_published

    published, principals = open_published(corpus), principals_of(names)
    if principals is None and published.has_rights:
        say("no document is hidden on this machine; to ask as a reader: --as group:NAME, user:NAME or everyone")
    return published.for_reader(principals)


@takes_filters
def search(
    corpus: CorpusArgument,
    query: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    preset: Annotated[str | None, typer.Option(help="A retrieval preset; 'inset presets CORPUS' lists them.")] = None,
    steps: Annotated[
        list[str] | None, typer.Option("--set", help="Override a step of the preset: select.diversity=0.5.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", min=1, max=1000, help="Maximum hits; by default 10.")] = None,
    group: Annotated[str | None, typer.Option(help="Show the best hit of each page or document: page, document.")] = None,
    highlight: Annotated[
        bool, typer.Option("--highlight", help="Also mark the sentence nearest in meaning, which takes longer.")
    ] = False,
    version: VersionOption = None,
    image: Annotated[
        Path | None,
        typer.Option(help="A picture to search by, alone or with QUERY, if the corpus has a model of pictures."),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    reader: ReaderOption = None,
    as_json: Json = False,
    *,
    filters: Filters,
) -> None:
    """Search the live version."""
    from schemas.retrieval import GroupBy, Query

    if group is not None and group not in set(GroupBy):
        raise UserError(f"--group {group}: use one of {', '.join(sorted(GroupBy))}")
    query = None if query is None else _question(query)
    if not query and image is None:
        raise UserError("what should be searched for? Give a QUERY or an --image")
    search_query = Query(
        query=query or "",
        picture=None if image is None else _read(image),
        preset=preset,
        steps=_changes(steps or []),
        k=k,
        filters=filters,
        version=version,
        group=GroupBy(group) if group else None,
        highlight=highlight or None,
        trace=trace,
    )
    result = _open(corpus, reader).search(search_query)
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


def _read(image: Path) -> bytes:
    try:
        return image.read_bytes()
    except OSError as error:
        raise UserError(f"--image {image}: {error.strerror}") from error


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
        rows = []
        for step in steps:
            question = " ".join(step.asked.split())
            question = question if len(question) <= 60 else f"{question[:59]}…"
            rows.append((step.step, f"{step.seconds * 1000:.1f}", step.candidates, question, step.note))
        print_table("steps", ("step", "ms", "rows", "asked", "note"), rows)


def presets(corpus: CorpusArgument, as_json: Json = False) -> None:
    """List the retrieval and answer presets of a corpus, and what is missing for each."""
    from pipeline.published.corpus import open_published

    published = open_published(corpus)
    searches, answers = published.presets(), published.answer_presets()
    if as_json:
        print_json({"presets": searches, "answers": answers})
        return
    infos: tuple[tuple[str, Sequence[PresetInfo | AnswerPresetInfo]], ...] = (("preset", searches), ("answer", answers))
    for kind, listed in infos:
        for source, source_infos in groupby(listed, lambda preset: preset.source):
            rows = [(preset.name, preset.sentence, "; ".join(preset.missing)) for preset in source_infos]
            print_table(source, (kind, "what it does", "what is missing"), rows)


def _show_hits(hits: "Sequence[Hit]", group: str | None = None) -> None:
    from pipeline.published.own_fields import in_words
    from tasks.answering.highlight import excerpt

    for rank, hit in enumerate(hits, 1):
        kind = f", {hit.doc_type}" if hit.doc_type else ""
        kind += "".join(f", {name} {in_words(value)}" for name, value in hit.fields.items())
        kind += f", {hit.superseded}" if hit.superseded else ""
        show(f"{hit.source}, {hit.regions[0].page_name}{kind}  ({hit.modality}, {hit.score:.4f})", bold=f"{rank}. ")
        marked_spans = [*hit.highlights, *([hit.nearest_sentence] if hit.nearest_sentence else [])]
        start, end = excerpt(len(hit.text), marked_spans, _EXCERPT)
        show(f"   {'…' if start else ''}{' '.join(hit.text[start:end].split())}{'…' if end < len(hit.text) else ''}")
        if hit.more:
            say_more = "on this page" if group == "page" else "in this document"
            show(f"   and {hit.more} more {say_more}")
    if not hits:
        say("nothing found")


def _ask_several(corpora: "Sequence[PublishedCorpus]", query: "AnswerQuery") -> "AnswerResult":
    """Return one answer from several corpora, asked at once; those that fail are named and left out."""
    from pipeline.published.across import composed

    def answer(published: "PublishedCorpus") -> "AnswerResult | InsetError":
        try:
            return published.answer(published.applicable(query)[0])
        except InsetError as error:
            return error

    if query.version is not None:
        raise UserError("--version: a version is one of a corpus; leave it out to ask several")
    with ThreadPoolExecutor(len(corpora)) as threads:
        replies = dict(zip([published.name for published in corpora], threads.map(answer, corpora), strict=True))
    errors = {name: reply for name, reply in replies.items() if isinstance(reply, InsetError)}
    for name, error in errors.items():
        say(f"left out: {name}: {error.message}")
    if len(errors) == len(replies):
        raise next(iter(errors.values()))
    results = {name: reply for name, reply in replies.items() if not isinstance(reply, InsetError)}
    return composed(results, {name: error.message for name, error in errors.items()})


@takes_filters
def ask(
    corpora: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help="A corpus, or several: names, or paths to corpus files.")
    ],
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
    image: Annotated[Path | None, typer.Option(help="A picture that goes with the question.")] = None,
    version: VersionOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the rest of each passage too.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    reader: ReaderOption = None,
    as_json: Json = False,
    *,
    filters: Filters,
) -> None:
    """Answer a question, figures in place, a citation for each part."""
    from cli.answers import show_answer
    from schemas.answers import AnswerEvent, AnswerFinished
    from schemas.retrieval import AnswerQuery

    if not (text := _question(question)):
        raise UserError("what should be answered? Give a QUESTION")
    changes = _changes(settings or [])
    overridden = changes.pop("answer", {})
    if not isinstance(overridden, dict):
        raise UserError("--set answer=…: write answer.KEY=VALUE, such as answer.max_images=4; --answer names a preset")
    query = AnswerQuery(
        question=text,
        answer=answer,
        settings=overridden,
        preset=preset,
        steps=changes,
        picture=None if image is None else _read(image),
        filters=filters,
        version=version,
        trace=trace,
    )
    if len(corpora) > 1:
        several = [_open(corpus, reader) for corpus in dict.fromkeys(corpora)]
        events: Iterable[AnswerEvent] = [AnswerFinished(result=_ask_several(several, query))]
    else:
        published = _open(corpora[0], reader)
        events = [AnswerFinished(result=published.answer(query))] if as_json else published.answer_events(query)
    if as_json:
        print_json(next(event.result for event in events if isinstance(event, AnswerFinished)))
    else:
        _show_trace(show_answer(events, everything=everything).trace or [])
