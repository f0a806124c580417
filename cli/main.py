"""The command ``inset``: arguments in, progress and results out.

Exit codes: 0 done, 1 an outside failure or a bug, 2 the user's mistake or an unreadable document, 3 refused by a gate.
"""

import atexit
import gc
import sys
from typing import Annotated, NoReturn

import typer

from cli.corpora import access, doctor, init, status
from cli.correct import correct
from cli.documents import export, parse
from cli.feedback import feedback
from cli.questions import ask, presets, search
from cli.serve import key, mcp, serve
from cli.terminal import say
from cli.versions import REFUSED, diff, forget, plan, prune, publish, quarantine, refresh, rollback, step, versions
from schemas.base import RELEASE, extensions
from schemas.errors import BadInputError, GateError, InsetError, UserError
from workers.garbage import INFREQUENT

app = typer.Typer(
    help="Turn technical PDFs into a versioned, searchable index with every figure in its place.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _show_release(requested: bool) -> None:
    if requested:
        sys.stdout.write(f"inset {RELEASE}\n")
        raise typer.Exit


@app.callback()
def _options(
    release: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_release, help="Show the release of Inset, and exit.")
    ] = False,
) -> None:
    """Turn technical PDFs into a versioned, searchable index with every figure in its place."""


for _function in (
    *(init, plan, refresh, versions, diff, rollback, publish, prune, forget, quarantine),
    *(search, presets, ask, parse, export, serve, doctor, access, feedback, correct, key, mcp, status, step),
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


def run() -> NoReturn:
    """Run the command in a process of its own.

    Collections of garbage during imports take a second of a refresh, and those at exit a second more.
    """
    gc.set_threshold(*INFREQUENT)
    atexit.register(gc.freeze)
    main()


def _fail(error: InsetError, code: int) -> NoReturn:
    for line in error.message.split("\n"):
        say(f"inset: {line}")
    sys.exit(code)


if __name__ == "__main__":
    run()
