"""Requests of a corpus that is in S3 alone: ``python -m bench.s3_requests [--documents N ...] [--json]``.

Made-up PDFs of a page with a figure are in a bucket of a moto server. Its log counts the requests of a first refresh, of one with
nothing changed, and of one where a document in a hundred changed; they are divided by all documents. Wall times are of this
machine, the server included.
"""

import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from bench.table import Row, parser_of, show

_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
_CORPUS = "name: manuals\nsource: s3://bench/pdfs\nstore: s3://bench/inset\ncaptions: {ocr: none}\n"
_REQUEST = re.compile(r'"(GET|PUT|HEAD|POST|DELETE) /bench(?:/([^ ?]*))?(\?list-type)?')
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LISTING = "listing"
FIRST, MOST_FIRST = "first refresh", 10
"""Name of the first refresh, and the goal of its requests a document."""


@dataclass(frozen=True)
class Refresh:
    """A refresh: its requests by method and folder, and its seconds."""

    name: str
    requests: Counter[str]
    wall_s: float

    @property
    def listed(self) -> int:
        """Its requests for a page of a listing."""
        return self.requests[_LISTING]


def main() -> None:
    """Refresh corpora of several sizes, and print the requests a document."""
    parser = parser_of("s3_requests", __doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[300, 2_000], help="sizes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    rows = [row for documents in arguments.documents for row in _rows(documents)]
    show("documents of a page and a figure, made up; PDFs and store in S3", rows)


def _rows(documents: int) -> Iterator[Row]:
    for made in refreshes(documents):
        title = f"{documents:,}, {made.name}"
        sys.stderr.write(f"{title}: {dict(made.requests.most_common())}, {made.wall_s:.0f} s\n")
        goal = f"at most {MOST_FIRST}" if made.name == FIRST else "none"
        yield Row(f"{title}: requests", "a document", (made.requests.total() - made.listed) / documents, goal=goal)
        yield Row(f"{title}: listing", "requests", made.listed)
        yield Row(f"{title}: time", "s a 1,000", 1_000 * made.wall_s / documents)


def refreshes(documents: int) -> Iterator[Refresh]:
    """Refresh a corpus in S3 three times, and yield each refresh."""
    from pipeline.corpus.workspace import open_workspace
    from pipeline.run import refresh
    from tests.s3_server import running

    with tempfile.TemporaryDirectory(prefix="inset-s3-") as folder, (Path(folder) / "requests.log").open("w+") as log:
        file = Path(folder) / "manuals.yaml"
        file.write_text(_CORPUS)
        with running(log.fileno()) as server, mock.patch.dict(os.environ, _KEYS | {"AWS_ENDPOINT_URL": server}):
            for name, numbers, edition in (
                (FIRST, range(documents), "a"),
                ("nothing changed", range(0), ""),
                ("1 % changed", range(0, documents, 100), "b"),
            ):
                _upload(Path(folder), numbers, edition)
                start = os.fstat(log.fileno()).st_size
                began = time.monotonic()
                refresh(open_workspace(str(file)))
                wall_s = time.monotonic() - began
                yield Refresh(name, _kinds((Path(folder) / "requests.log").read_text()[start:]), wall_s)


def _upload(folder: Path, numbers: range, edition: str) -> None:
    from backends.stores.s3_store import s3_client
    from tests.manuals import write_manual

    client = s3_client()
    if edition == "a":
        client.create_bucket(Bucket="bench")
    for number in numbers:
        made = write_manual(
            folder / "manual.pdf", f"pump {number}{edition}", seed=number + 1_000_000 * (edition == "b"), pages=1
        )
        client.put_object(Bucket="bench", Key=f"pdfs/{number:06}.pdf", Body=made.read_bytes())


def _kinds(log: str) -> Counter[str]:
    """Count requests by method and folder."""
    kinds: Counter[str] = Counter()
    for method, key, listing in _REQUEST.findall(_COLOUR.sub("", log)):
        kinds[_LISTING if listing else f"{method} {'/'.join(key.split('/')[: 3 if key.startswith('inset/') else 1])}"] += 1
    return kinds


if __name__ == "__main__":
    main()
