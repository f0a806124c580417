"""The command by which operators correct what was read from documents."""

from pathlib import Path
from typing import Annotated

import typer
import yaml

from cli.terminal import CorpusArgument, Json, open_workspace, print_json, print_table, say
from schemas.corrections import CorrectionKind
from schemas.errors import UserError


def correct(
    corpus: CorpusArgument,
    source: Annotated[str | None, typer.Argument(help="A document, by its source.")] = None,
    page: Annotated[int | None, typer.Argument(help="A page of it; lists what can be corrected there.")] = None,
    part: Annotated[
        str | None, typer.Argument(help="A figure, by the beginning of its id, or a block, by its number.")
    ] = None,
    kind: Annotated[CorrectionKind | None, typer.Argument(help="What of it is wrong.")] = None,
    value: Annotated[str | None, typer.Argument(help="What is right.")] = None,
    row: Annotated[int, typer.Option(help="The row of a cell, from 0, the header first.")] = -1,
    column: Annotated[int, typer.Option(help="The column of a cell, from 0.")] = -1,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Take descriptions of figures from YAML: a figure's id, or its tag's number, and its text a line."
        ),
    ] = None,
    undo: Annotated[str | None, typer.Option(help="Take a correction back, by its id.")] = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the correction.")] = "",
    every: Annotated[bool, typer.Option("--all", help="List those that are undone, too.")] = False,
    as_json: Json = False,
) -> None:
    """Correct a caption, description, role, block, title or cell by hand, or list corrections; the next refresh applies them."""
    from pipeline.operations import corrections
    from pipeline.records.publication import this_person

    workspace = open_workspace(corpus)
    store, name = workspace.store, workspace.corpus.name
    if file is not None:
        described = corrections.describe_figures(store, name, _descriptions(file), by=this_person(), reason=reason)
        say(f"{len(described)} descriptions corrected; to apply them: inset refresh {name}")
    elif undo is not None:
        corrections.undo_correction(store, undo, by=this_person())
        say(f"{undo} is undone; to apply that: inset refresh {name}")
    elif source is None:
        listed = [entry for entry in corrections.listed_corrections(store, name) if every or entry.state != "undone"]
        if as_json:
            print_json({"corrections": listed})
            return
        rows = [
            (
                entry.id,
                entry.state,
                f"{correction.source} p. {correction.page}",
                correction.kind,
                correction.value,
                correction.by,
                f"{correction.at:%Y-%m-%d}",
                correction.reason,
            )
            for entry in listed
            for correction in [entry.correction]
        ]
        print_table("", ("id", "state", "where", "kind", "value", "by", "at", "reason"), rows)
    elif page is None or (part is None) != (value is None):
        raise UserError(
            "name a document and a page to list what it has, and then a part, what of it is wrong, and what is right"
        )
    elif part is None or kind is None or value is None:
        parts = corrections.LiveDocument(store, name, source).parts(page)
        if as_json:
            print_json(parts)
            return
        print_table(
            "",
            ("part", "is", "to correct", "text"),
            [(entry.name[:12], entry.what, ", ".join(entry.kinds), entry.text[:200]) for entry in parts.parts],
        )
    else:
        correction = corrections.correct_part(
            store, name, source, page, part, kind, value, by=this_person(), reason=reason, row=row, column=column
        )
        if as_json:
            print_json({"id": correction.id, **dict(correction)})
        else:
            say(f"{correction.id}: {kind} corrected; to apply it: inset refresh {name}")


def _descriptions(file: Path) -> dict[str, str]:
    """Read a mapping of texts; numbers keep their zeros."""
    try:
        described = yaml.load(file.read_text("utf-8"), yaml.BaseLoader)  # noqa: S506 - it makes strings alone
    except OSError as error:
        raise UserError(f"--file {file}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"--file {file}: this is not YAML in UTF-8: {error}") from error
    if not isinstance(described, dict) or not all(isinstance(text, str) for pair in described.items() for text in pair):
        raise UserError(f"--file {file}: write a line a figure, such as 3f2a9c01: The pump from the side")
    return described
