"""The commands ``inset questions``: import question sets, and describe them."""

from pathlib import Path
from typing import Annotated

import typer

from cli.terminal import Json, print_json, print_table, say, show
from schemas.errors import UserError

_SHOWN = 20
"""Mistakes shown of one file."""

questions = typer.Typer(help="Import question sets, and describe them.", no_args_is_help=True)


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
    from evaluation.question_files import FORMS, OWN, read_question_file, write_questions

    if form not in ("auto", OWN, *FORMS):
        raise UserError(f"--format {form}: write auto, {OWN}, {', '.join(FORMS)}")
    read = read_question_file(file, form)
    for mistake in read.mistakes[:_SHOWN]:
        say(mistake)
    if more := len(read.mistakes[_SHOWN:]):
        say(f"and {more} more rows")
    if read.mistakes and not skip:
        raise UserError(
            f"nothing written: {len(read.mistakes)} rows can't be read; correct them, or leave them out with --skip"
        )
    if not read.questions:
        raise UserError(f"{file}: there are no questions in it")
    write_questions(read.questions, out)
    if as_json:
        counts = {"questions": len(read.questions), "skipped": len(read.mistakes), "not_read": sorted(read.unread)}
        print_json({"file": str(out), "format": read.form, **counts})
        return
    if read.unread:
        say(f"not read: {', '.join(sorted(read.unread))}")
    say(f"wrote {len(read.questions)} questions ({read.form}) to {out}; rows left out: {len(read.mistakes)}")


@questions.command()
def stats(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A question set: JSONL, or any file that import reads.")],
    as_json: Json = False,
) -> None:
    """Describe a question set: counts by document, kind and evidence, pages and words a question."""
    from evaluation.question_files import read_question_file
    from evaluation.question_statistics import Spread, describe_questions

    read = read_question_file(file)
    if read.mistakes:
        say(read.mistakes[0])
        raise UserError(
            f"{len(read.mistakes)} rows can't be read; write the others with: inset questions import {file} --skip"
        )
    described = describe_questions(read.questions)
    if as_json:
        print_json(described)
        return
    values = {name: getattr(described, name) for name in type(described).model_fields}
    print_table("", ("", "questions"), [(_words(name), value) for name, value in values.items() if isinstance(value, int)])
    spreads = [(_words(name), value) for name, value in values.items() if isinstance(value, Spread)]
    print_table("", ("", "mean", "largest"), [(name, f"{one.mean:.1f}", one.largest) for name, one in spreads])
    for name, counts in values.items():
        if isinstance(counts, dict) and counts:
            total = described.answerable if name.startswith("evidence") else described.questions
            rows = [(key if key != "" else "(none named)", count, f"{count / total:.1%}") for key, count in counts.items()]
            print_table("", (_words(name), "questions", "share"), rows[:_SHOWN])
            if more := len(rows[_SHOWN:]):
                show(f"and {more} more")


def _words(name: str) -> str:
    return name.replace("_", " ")
