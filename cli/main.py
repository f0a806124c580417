"""The command ``inset``: arguments in, progress and results out.

Exit codes: 0 done, 1 an outside failure or a bug, 2 the user's mistake or an unreadable document, 3 refused by a gate.
"""

import asyncio
import atexit
import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from pydantic import BaseModel

from cli.documents import export, parse
from cli.filters import takes_filters
from cli.key import key
from cli.serve import serve
from cli.status import status
from cli.step import step
from cli.terminal import CorpusArgument, Json, VersionOption, print_json, print_table, say, show, show_marked
from cli.versions import REFUSED, diff, forget, mirror, plan, prune, publish, quarantine, refresh, rollback, versions
from schemas.base import extensions
from schemas.errors import BadInputError, GateError, InsetError, UserError
from schemas.models import MULTILINGUAL
from workers.garbage import INFREQUENT

if TYPE_CHECKING:
    from pipeline.published.corpus import PublishedCorpus
    from schemas.answers import AnswerPresetInfo
    from schemas.evidence import Hit, TraceStep
    from schemas.filters import Filters
    from schemas.retrieval import PresetInfo


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
        from schemas.base import RELEASE

        sys.stdout.write(f"inset {RELEASE}\n")
        raise typer.Exit


@app.callback()
def _options(
    release: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_release, help="Show the release of Inset, and exit.")
    ] = False,
) -> None:
    """Turn technical PDFs into a versioned, searchable index with every figure in its place."""


def init(
    name: Annotated[str, typer.Argument(help="The corpus's name.")] = "manuals",
    source: Annotated[
        str, typer.Option(help="A folder, a glob or s3://bucket/prefix; relative to the working folder.")
    ] = "pdfs",
    as_json: Json = False,
) -> None:
    """Write a commented corpus file, corpora/NAME.yaml."""
    from pipeline.corpus.corpora import write_corpus_file
    from pipeline.corpus.languages import text_model_for

    model = text_model_for(source)
    path = write_corpus_file(name, source, model)
    if as_json:
        print_json({"corpus": name, "file": str(path), "text_model": model})
        return
    if model == MULTILINGUAL:
        say(f"a fifth or more of the PDFs are not in English: embeddings.text is {MULTILINGUAL}")
    say(f"wrote {path}; look it over, then run: inset refresh {name}")


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
        typer.Option(help="A picture to search by, alone or with QUERY, where the corpus has a model of pictures."),
    ] = None,
    like: Annotated[str | None, typer.Option(help="Instead of QUERY: show figures like this one, given by its id.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    as_json: Json = False,
    *,
    filters: "Filters",
) -> None:
    """Search the live version."""
    from pipeline.published.corpus import open_published
    from schemas.filters import NO_FILTERS
    from schemas.retrieval import GroupBy, Query

    if group is not None and group not in set(GroupBy):
        raise UserError(f"--group {group}: use one of {', '.join(sorted(GroupBy))}")
    query = None if query is None else _question(query)
    output_options = {"--group": group, "--highlight": highlight, "--trace": trace}
    if like is not None:
        narrowing_options = {"filters": filters != NO_FILTERS, "--preset": preset, "--set": steps}
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


@takes_filters
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
    image: Annotated[Path | None, typer.Option(help="A picture that goes with the question.")] = None,
    continues: Annotated[
        bool, typer.Option("--continue", help="It follows up the last question that was asked of this corpus here.")
    ] = False,
    version: VersionOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the rest of each passage too.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show what each step did.")] = False,
    as_json: Json = False,
    *,
    filters: "Filters",
) -> None:
    """Answer a question, figures in place, a citation for each part."""
    from cli.answers import Conversation, show_answer, turn_of
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
        filters=filters,
        version=version,
        trace=trace,
    )
    published = open_published(corpus)
    conversation = Conversation(corpus)
    query = replace(query, history=conversation.turns() if continues else ())
    if as_json:
        result = published.answer(query)
        print_json(result)
    else:
        result = show_answer(published.answer_events(query), everything=everything)
        _show_trace(result.trace or [])
    conversation.keep([*query.history, turn_of(text, result)])


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


def mcp(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to serve; by default all.")
    ] = None,
) -> None:
    """Serve an agent by the Model Context Protocol on standard input and output; 'inset serve' does so at /mcp."""
    import httpx

    from inset_client import AsyncClient
    from inset_client.mcp import server_of
    from query_service.workers import ServiceOptions

    app = ServiceOptions(corpora=corpora or []).open()
    transport = httpx.ASGITransport(app)

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            await server_of(lambda _: AsyncClient("http://localhost", transport=transport)).run_stdio_async()

    asyncio.run(serve())


for _function in (
    *(init, plan, refresh, versions, diff, rollback, publish, prune, forget, mirror, quarantine),
    *(search, presets, ask, parse, export, serve, doctor, key, mcp, status, step),
):
    app.command()(_function)
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
    no use for it. Collections of garbage during imports take a second of a refresh, and those at exit a second more.
    """
    gc.set_threshold(*INFREQUENT)
    atexit.register(gc.freeze)
    if sys.argv[1:2] in (["search"], ["ask"]):
        sys.meta_path.insert(0, _NoPandas())
    main()


def _fail(error: InsetError, code: int) -> NoReturn:
    for line in error.message.split("\n"):
        say(f"inset: {line}")
    sys.exit(code)


if __name__ == "__main__":
    run()
