"""Cells of tables against page texts with tables: ``python -m bench.cells --pdfs DIR --truth DIR [--peer DIR] [--json]``.

Truth and peer are folders of OHR-Bench, as ``data/retrieval_base/gt/finance`` and ``data/retrieval_base/MinerU/finance``: a JSON
file a document, with the text of each page, tables in LaTeX, HTML or Markdown. Documents are matched by name, without the prefix
``DUDE_``. Cells are compared by their letters and digits. *F1* is that of the bags of cells of a page, weighted by its true
cells. Pages with fewer than four true cells are left out. Scanned pages are read with OCR.
"""

import argparse
import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.table import Row, parser_of, show
from pipeline.inspection.inspect import inspect
from schemas.corpus.models import CaptionOptions

FEWEST_CELLS = 4
GOAL = "at least 0.9"
Tables = Sequence[Sequence[Sequence[str]]]
_TABULAR = re.compile(
    r"\\begin\{(tabular|array)\}(?:\[[^\]]*\])?\s*\{(?:[^{}]|\{[^{}]*\})*\}((?:(?!\\begin\{(?:tabular|array)\}).)*?)\\end\{\1\}",
    re.DOTALL,
)
_OVER_COLUMNS = re.compile(r"\\multicolumn\s*\{\d+\}\s*\{(?:[^{}]|\{[^{}]*\})*\}\s*\{(.*)\}\s*", re.DOTALL)
_OVER_ROWS = re.compile(r"\\multirow(?:\[[^]]*\])?\s*\{[-\d]+\}\s*\{[^{}]*\}\s*\{(.*)\}\s*", re.DOTALL)
_RULE = re.compile(r"\\(?:hline|cline\s*\{[^}]*\}|toprule|midrule|bottomrule)")
_STYLED = re.compile(r"\\(?:text\w*|math\w+|underline|operatorname|boldsymbol|bar|hat|overline)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?|<[^>]*>")
_MARKDOWN = re.compile(r"(?:^\|.*\|[ \t]*\n?){2,}", re.MULTILINE)


def main() -> None:
    """Score Inset and the peer, document by document."""
    parser = parser_of("cells", __doc__)
    parser.add_argument("--pdfs", type=Path, required=True, metavar="DIR", help="the PDFs")
    parser.add_argument("--truth", type=Path, required=True, metavar="DIR", help="true texts of their pages")
    parser.add_argument("--peer", type=Path, metavar="DIR", help="texts that another program makes of them")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    show("cells of tables on pages with tables", list(_rows(arguments)))


def _rows(arguments: argparse.Namespace) -> Iterator[Row]:
    peer = arguments.peer.name if arguments.peer else ""
    scores: list[tuple[int, float, float]] = []
    for path in sorted(arguments.truth.glob("*.json")):
        pdf = arguments.pdfs / f"{path.stem.removeprefix('DUDE_')}.pdf"
        if not pdf.exists():
            continue
        truth = {page: cells for page, cells in _bags(path).items() if cells.total() >= FEWEST_CELLS}
        if not truth:
            continue
        ours = {
            page.page: _bag([table.rows for table in page.tables]) for page in inspect(pdf, captions=CaptionOptions()).pages
        }
        theirs = _bags(arguments.peer / path.name) if arguments.peer else {}
        count = sum(cells.total() for cells in truth.values())
        own, other = _score(truth, ours), _score(truth, theirs)
        scores.append((count, own, other))
        yield Row(f"{pdf.stem[:24]}, {len(truth)} pages", "F1", own, other if peer else None, peer)
    if scores:
        count = sum(cells for cells, *_ in scores)
        own, other = (sum(score[0] * score[at] for score in scores) / count for at in (1, 2))
        yield Row("all", "F1", own, other if peer else None, peer, GOAL)


def _score(truth: dict[int, Counter[str]], found: dict[int, Counter[str]]) -> float:
    """Return the F1 of pages, weighted by their true cells."""
    pages = [(cells.total(), _f1(cells, found.get(page, Counter()))) for page, cells in truth.items()]
    return sum(count * score for count, score in pages) / sum(count for count, _ in pages)


def _f1(truth: Counter[str], found: Counter[str]) -> float:
    return 2 * (truth & found).total() / max(1, truth.total() + found.total())


def _bags(path: Path) -> dict[int, Counter[str]]:
    pages = json.loads(path.read_text(encoding="utf-8"))
    return {page["page_idx"] + 1: _bag(list(tables_in(page["text"]))) for page in pages}


def _bag(tables: Tables) -> Counter[str]:
    return Counter(letters for table in tables for row in table for cell in row if (letters := _letters(cell)))


def _letters(cell: str) -> str:
    """Return the letters and digits of a cell in LaTeX, HTML or plain text, in lower case."""
    text = html.unescape(cell)
    while (bare := _STYLED.sub(r"\1", text)) != text:
        text = bare
    return "".join(filter(str.isalnum, _COMMAND.sub("", text).casefold()))


def tables_in(text: str) -> Iterator[list[list[str]]]:
    """Yield the cells of the tables in a page's text; a table in a cell is that cell's text."""
    while found := _TABULAR.search(text):
        before, inner, after = text[: found.start()], found[2], text[found.end() :]
        if before.count("\\begin{tabular}") > before.count("\\end{tabular}"):
            text = before + re.sub(r"\\\\|&", " ", inner) + after
            continue
        yield [
            [_OVER_ROWS.sub(r"\1", _OVER_COLUMNS.sub(r"\1", cell.strip())) for cell in _cells(row)]
            for row in inner.split("\\\\")
        ]
        text = before + after
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL | re.IGNORECASE):
        rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL | re.IGNORECASE)
        yield [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL | re.IGNORECASE) for row in rows]
    for table in _MARKDOWN.findall(text):
        yield [row.strip().strip("|").split("|") for row in table.strip().splitlines() if row.strip(" |:-")]


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)&", _RULE.sub("", row))


if __name__ == "__main__":
    main()
