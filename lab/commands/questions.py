"""The commands ``inset questions``: import, generate, rank, judge and describe question sets."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import CorpusArgument, Json, print_json, print_table, reporting, say, show
from schemas.errors import UserError

if TYPE_CHECKING:
    from lab.descriptive_statistics import CorpusStatistics, QuestionStatistics
    from lab.outcomes import Outcome
    from lab.pooling import Reliability

_SHOWN = 20
"""Mistakes shown of one file."""

questions = typer.Typer(help="Import, generate, rank, judge and describe question sets.", no_args_is_help=True)


@questions.command("import")
def import_questions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, JSONL, or JSON.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write.")] = Path("questions.jsonl"),
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="inset, mmlongbench, mmdocir, ohrbench, financebench or mmdocrag; auto goes by the keys of rows.",
        ),
    ] = "auto",
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out rows that can't be read; else nothing is written.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the questions of a file, or of a public dataset, as JSONL that every other command reads."""
    from lab.question_files import FORMS, OWN, read_question_file, write_questions

    if form not in ("auto", OWN, *FORMS):
        raise UserError(f"--format {form}: write auto, {OWN}, {', '.join(FORMS)}")
    question_file = read_question_file(file, form)
    for mistake in question_file.mistakes[:_SHOWN]:
        say(mistake)
    if unshown := len(question_file.mistakes[_SHOWN:]):
        say(f"and {unshown} more rows")
    if question_file.mistakes and not skip:
        raise UserError(
            f"nothing written: {len(question_file.mistakes)} rows can't be read; correct them, or leave them out with --skip"
        )
    if not question_file.questions:
        raise UserError(f"{file}: there are no questions in it")
    write_questions(question_file.questions, out)
    if as_json:
        counts = {
            "questions": len(question_file.questions),
            "skipped": len(question_file.mistakes),
            "not_read": sorted(question_file.unread),
        }
        print_json({"file": str(out), "format": question_file.form, **counts})
        return
    if question_file.unread:
        say(f"not read: {', '.join(sorted(question_file.unread))}")
    say(
        f"wrote {len(question_file.questions)} questions ({question_file.form}) to {out}; "
        f"rows left out: {len(question_file.mistakes)}"
    )


@questions.command()
def generate(
    corpus: CorpusArgument,
    kinds: Annotated[
        str,
        typer.Option(
            "--from",
            help="What each question is written from: figures, contents (two kinds of rows of one document), tables (of two "
            "documents); several with commas.",
        ),
    ] = "figures,contents,tables",
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="Questions of each kind.")] = 20,
    model: Annotated[str, typer.Option(help="A generative model of the corpus file.")] = "llm",
    version: Annotated[str, typer.Option(help="A version, or live, previous, latest.")] = "live",
    seed: Annotated[int, typer.Option(help="Chooses documents and rows.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write.")] = Path("generated.jsonl"),
    as_json: Json = False,
) -> None:
    """Let a model write questions with their answers and evidence from a version; read them before you trust them."""
    from lab.generate import Generated, generate_questions
    from lab.generation.materials import KINDS
    from lab.question_files import write_questions
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.publication import resolve_version

    selected_kinds = [kind for kind in KINDS if kind in kinds.split(",")]
    if unknown := set(kinds.split(",")) - set(KINDS):
        raise UserError(f"--from {kinds}: there is no {min(unknown)!r}; write {', '.join(KINDS)}")
    workspace = open_workspace(corpus)
    resolved_version = resolve_version(workspace.store, workspace.corpus.name, version)
    generated = Generated()
    with reporting() as report:
        for kind in selected_kinds:
            generated_of_kind = generate_questions(
                workspace, resolved_version, kind, count, model=model, seed=seed, report=report
            )
            generated.questions += generated_of_kind.questions
            generated.rejected += generated_of_kind.rejected
    if not generated.questions:
        why = generated.rejected.most_common(1)
        raise UserError(f"nothing written: {f'{why[0][0]} ({why[0][1]} times)' if why else f'the version has no {kinds}'}")
    write_questions(generated.questions, out)
    if as_json:
        print_json(
            {
                "file": str(out),
                "version": resolved_version,
                "questions": len(generated.questions),
                "rejected": dict(generated.rejected),
            }
        )
        return
    for reason, times in generated.rejected.most_common():
        say(f"{times} rejected: {reason}")
    say(f"wrote {len(generated.questions)} questions to {out}")


@questions.command()
def pool(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders that inset evaluate wrote, of the same questions.")
    ],
    question_file: Annotated[
        Path, typer.Option("--questions", metavar="FILE", help="The question set that they were asked.")
    ],
    depth: Annotated[
        int | None,
        typer.Option(min=1, max=200, help="Rows of each system and question; by default all, to the longest ranking."),
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Collect whole answers with their figures in place of rows.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write.")] = Path("pool.jsonl"),
) -> None:
    """Collect what the systems of experiments retrieved or answered, each once, so that people can judge it."""
    from evaluation.questions import load_questions
    from lab.pooling import pool as pooled
    from lab.pooling import pool_answers
    from lab.question_files import write_records
    from lab.results import read_run

    outcomes: dict[str, list[Outcome]] = {}
    versions = set[str]()
    for folder in folders:
        version, run_outcomes = read_run(folder)
        versions.add(version)
        outcomes |= run_outcomes
    if len(versions) > 1:
        raise UserError(
            f"these experiments ran on {len(versions)} versions; pool those of one: {', '.join(sorted(versions))}"
        )
    loaded_questions, version = load_questions(str(question_file)), versions.pop()
    if answers:
        candidates, unit, verb = (
            pool_answers(loaded_questions, outcomes, version),
            "answers or figures of answers",
            "answered",
        )
    else:
        candidates, unit, verb = pooled(loaded_questions, outcomes, version, depth), "rows", "retrieved anything for"
    if not candidates:
        raise UserError(f"{question_file}: no system {verb} its questions; name the set that the experiment asked")
    write_records(candidates, out)
    say(f"wrote {len(candidates)} {unit} of {len(outcomes)} systems to {out}")
    say(f"to judge them: inset questions judge {out} --corpus NAME --by NAME")


@questions.command()
def judge(
    pool_file: Annotated[Path, typer.Argument(metavar="POOL", help="The file that inset questions pool wrote.")],
    corpus: Annotated[str, typer.Option(help="The corpus, which draws the pages.")],
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Your name: letters, digits, - and _.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Have a model of the corpus file judge instead; its judgements are marked."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8751,
) -> None:
    """Judge the rows or answers of a pool on a page, or have a model judge them; judgements are kept beside the pool."""
    from contextlib import closing

    from evaluation.questions import read_records
    from lab.generate import generative_model
    from lab.judging_page.app import create_judging_app
    from lab.pooling import Candidate, judge_rows, judgements_file
    from lab.question_files import write_records
    from lab.replies import Replies
    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.corpus import PublishedCorpus
    from pipeline.published.version import open_version
    from query_service.serve import serve
    from schemas.corpus.operations import Spend

    if (by is None) == (model is None):
        raise UserError("give --by with your name, or --model with the name of a model that judges")
    name = by or model or ""
    if not re.fullmatch(r"[\w-]{1,40}", name):
        raise UserError(f"{name}: as a judge's name use letters, digits, - and _, at most 40")
    if model is not None:
        candidates: list[Candidate] = read_records(pool_file, Candidate, "rows")
        if not candidates:
            raise UserError(f"{pool_file}: it has no rows")
        if candidates[0].asks != "row":
            raise UserError(f"{pool_file}: people judge these answers; for a model, set 'judges' of an experiment")
        workspace = open_workspace(corpus)
        generative_model(workspace, model)
        replies = Replies(workspace, Spend())
        replies.begin(0)
        opened = replace(open_version(workspace, candidates[0].version), record=replies.record)
        try:
            judgements = [*judge_rows(candidates, opened.models()[model], name)]
        finally:
            replies.flush()
        write_records(judgements, judgements_file(pool_file, name))
        say(f"{model}, a model, judged {len(judgements)} of {len(candidates)} rows; people's judgements take precedence")
        return
    with closing(PublishedCorpus(open_workspace(corpus))) as published:
        serve(create_judging_app(published, pool_file, name), port=port)


@questions.command()
def qrels(
    pool_file: Annotated[Path, typer.Argument(metavar="POOL", help="The file that inset questions pool wrote.")],
    question_file: Annotated[Path, typer.Option("--questions", metavar="FILE", help="The question set.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSONL file to write.")] = Path("judged.jsonl"),
    as_json: Json = False,
) -> None:
    """Write questions with the judged rows as evidence, and say whom the pool favours; of answers, say how many are right."""
    from evaluation.questions import load_questions, read_records
    from lab.pooling import (
        MEASURE,
        Candidate,
        Correction,
        Judgement,
        answer_shares,
        corrections_files,
        judged_questions,
        judgements_files,
    )
    from lab.question_files import write_questions

    files = judgements_files(pool_file)
    if not files:
        raise UserError(f"nobody has judged {pool_file}; run: inset questions judge {pool_file} --corpus NAME --by NAME")
    judgements = [judgement for file in files for judgement in read_records(file, Judgement, "judgements")]
    corrections = [
        correction for file in corrections_files(pool_file) for correction in read_records(file, Correction, "corrections")
    ]
    candidates = read_records(pool_file, Candidate, "rows")
    loaded_questions = load_questions(str(question_file))
    if candidates and candidates[0].asks != "row":
        shares, settled = answer_shares(loaded_questions, candidates, judgements)
        if as_json:
            print_json(
                {"shares": [share.model_dump(mode="json") for share in shares], **settled.model_dump(exclude={"grades"})}
            )
            return
        cells = [(share.system, share.asks, share.kind, str(share.estimate), str(share.unjudged)) for share in shares]
        print_table("Right, as people judge", ("system", "judged", "documents", "share", "not judged"), cells, fold=False)
        _say_reliability(settled)
        return
    judged = judged_questions(loaded_questions, candidates, judgements, corrections)
    write_questions(judged.questions, out)
    if as_json:
        print_json(judged.model_copy(update={"questions": []}))
        return
    rows = [
        (bias.system, f"{bias.score:.3f}", f"{bias.left_out:.3f}", f"{bias.recall:.3f}", str(bias.own))
        for bias in judged.bias
    ]
    names = ("system", MEASURE, "without its own rows", "recall of the pool", "own rows")
    print_table(f"{MEASURE} by these judgements", names, rows, fold=False)
    _say_reliability(judged)
    say(f"wrote {out}; rows not judged: {judged.unjudged}; questions corrected: {judged.corrected}")


def _say_reliability(judged: "Reliability") -> None:
    for people, agreement in judged.people.items():
        say(f"{people}: {agreement}")
    if judged.disputed:
        say(f"{len(judged.disputed)} rows are judged differently and count as not judged, such as {judged.disputed[0]}")
    if judged.by_models:
        say(f"{judged.by_models} rows are judged by models alone")


@questions.command()
def rank(
    corpus: CorpusArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A question set in JSONL: id, question, doc.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The JSONL file to write: an id and a ranking of pages a line.")
    ],
    preset: Annotated[str | None, typer.Option(help="A retrieval preset of the corpus.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, max=1000, help="Maximum hits of a question.")] = 50,
    version: Annotated[str | None, typer.Option(help="A version; by default the live one.")] = None,
    as_json: Json = False,
) -> None:
    """Search for every question of a set, and write the ranking of pages of each."""
    from lab.rankings import rank_questions
    from pipeline.published.corpus import open_published
    from schemas.retrieval import Query

    with reporting() as report:
        query = Query("", preset=preset, k=k, version=version)
        summary = rank_questions(open_published(corpus), file, out, query, report)
    if as_json:
        print_json(summary)
        return
    say(f"{summary['questions']} questions ranked in {out}")


@questions.command()
def stats(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A question set: JSONL, or any file that import reads.")],
    as_json: Json = False,
) -> None:
    """Describe a question set: counts by document, kind and evidence, pages and words a question."""
    from lab.descriptive_statistics import describe_questions
    from lab.question_files import read_question_file

    question_file = read_question_file(file)
    if question_file.mistakes:
        say(question_file.mistakes[0])
        raise UserError(
            f"{len(question_file.mistakes)} rows can't be read; write the others with: inset questions import {file} --skip"
        )
    _show_statistics(describe_questions(question_file.questions), "questions", as_json=as_json)


@questions.command("corpus")
def describe_documents(
    corpus: CorpusArgument,
    version: Annotated[str, typer.Option(help="A version, or live, previous, latest.")] = "live",
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each figure's picture and its caption, a line a figure.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe the documents of a version as papers do: pages, texts, tables and images, in all and a document."""
    from contextlib import nullcontext

    from lab.descriptive_statistics import describe_corpus
    from pipeline.corpus.workspace import open_workspace
    from pipeline.records.publication import resolve_version

    workspace = open_workspace(corpus)
    resolved_version = resolve_version(workspace.store, workspace.corpus.name, version)
    try:
        with nullcontext() if pairs is None else pairs.open("w", encoding="utf-8") as out:
            described = describe_corpus(workspace.store, resolved_version, out)
    except OSError as error:
        raise UserError(f"can't write {pairs}: {error.strerror or error}") from error
    _show_statistics(described, "documents", as_json=as_json)


@questions.command("pages")
def export(
    corpus: CorpusArgument,
    file: Annotated[Path, typer.Option("--out", metavar="FILE.parquet", help="The file to write.")],
    images: Annotated[
        str,
        typer.Option(
            help="paper: the paper's filter (embedded, shorter side over 50 px, over 1024 bytes). none: every figure. "
            "FILE.drops.parquet lists what is left out, with the reason."
        ),
    ] = "paper",
    unique_texts: Annotated[bool, typer.Option("--unique-texts", help="Write each text once, with all its pages.")] = False,
    version: Annotated[str, typer.Option(help="A version, or live, previous, latest.")] = "live",
    as_json: Json = False,
) -> None:
    """Write a version's pages as the Parquet of "Beyond Text": a row per image of a page, and one per page without images."""
    from dataclasses import asdict

    from lab.pages import export_pages
    from lab.paginate import ImageFilter
    from pipeline.corpus.workspace import open_workspace

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


def _show_statistics(described: "QuestionStatistics | CorpusStatistics", of: str, *, as_json: bool) -> None:
    from lab.descriptive_statistics import Spread

    if as_json:
        print_json(described)
        return
    values = {name: getattr(described, name) for name in type(described).model_fields}
    print_table("", ("", "number"), [(_words(name), value) for name, value in values.items() if isinstance(value, int)])
    spreads = [(_words(name), value) for name, value in values.items() if isinstance(value, Spread)]
    print_table(
        "",
        ("", "mean", "median", "largest"),
        [(name, f"{spread.mean:.1f}", f"{spread.median:g}", spread.largest) for name, spread in spreads],
    )
    for name, counts in values.items():
        if isinstance(counts, dict) and counts:
            total = sum(counts.values()) if name.startswith("evidence") else values[of]
            rows = [(key if key != "" else "(none named)", count, f"{count / total:.1%}") for key, count in counts.items()]
            print_table("", (_words(name), of, "share"), rows[:_SHOWN])
            if unshown := len(rows[_SHOWN:]):
                show(f"and {unshown} more")


def _words(name: str) -> str:
    return name.replace("_", " ")
