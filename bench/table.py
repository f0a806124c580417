"""How a benchmark shows its result: our figure, a peer's or a floor's from the same run, the ratio and the goal."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure. ``ratio`` is ours over the peer's; ``goal`` says in words what it should be."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    peer_name: str = ""
    goal: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's; None without a peer."""
        return self.ours / self.peer if self.peer else None


def parser_of(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's options; ``about`` is its docstring."""
    first, _, more = (about or "").partition("\n\n")
    return argparse.ArgumentParser(prog=f"python -m bench.{name}", description=first, epilog=more)


def show(title: str, rows: Sequence[Row]) -> None:
    """Print rows as a table, or as JSON where ``--json`` was given."""
    if "--json" in sys.argv:
        print(json.dumps({"benchmark": title, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}, indent=2))
        return
    print(title)
    print(f"{'':34}{'ours':>10}{'peer':>10}{'ratio':>8}  {'unit':10}{'peer is':34}goal")
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:.2f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        print(f"{row.name:34}{row.ours:>10.2f}{peer:>10}{ratio:>8}  {row.unit:10}{row.peer_name:34}{row.goal}")


def rewrite(page: Path, tool: str, text: str) -> None:
    """Replace the part of a page that a benchmark generates; what people wrote around it stays.

    Args:
        page: A Markdown page.
        tool: What is written in the lines that mark the part: ``<!-- TOOL: begin -->`` and ``<!-- TOOL: end -->``.
        text: The new part.
    """
    begin, end = f"<!-- {tool}: begin -->", f"<!-- {tool}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page}: the lines {begin} and {end} mark the generated part; there are none")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")
