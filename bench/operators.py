"""How long operators wait for pages: ``python -m bench.operators [--corpora N] [--json]``.

N corpora of twelve versions each are written; the pages are asked in this process, as a user who may do everything. Medians of
seven requests each, after a first one.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from bench.table import Row, parser_of, show

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

VERSIONS, REQUESTS = 12, 7
MOST_MS = 350


def main() -> None:
    """Measure each page, and print them."""
    parser = parser_of("operators", __doc__)
    parser.add_argument("--corpora", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="print JSON")
    corpora = parser.parse_args().corpora
    with tempfile.TemporaryDirectory(prefix="inset-operators-") as folder:
        show(f"pages with {corpora} corpora", _pages(Path(folder), corpora))


def _pages(folder: Path, corpora: int) -> list[Row]:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from plugins.pages import access
    from plugins.pages.plugin import create_app
    from tests.pipeline.operations.corpora import write_corpus

    (folder / "corpora").mkdir()
    os.environ["INSET_CORPORA"] = str(folder / "corpora")
    for number in range(corpora):
        write_corpus(folder, f"corpus_{number:02}", versions=VERSIONS)
    everything = SimpleNamespace(
        is_authorized_dag=lambda **_: True, filter_authorized_dag_ids=lambda *, dag_ids, user: set(dag_ids)
    )
    vars(access).update(get_auth_manager=lambda: everything)
    pages = create_app()
    pages.dependency_overrides |= {get_user: lambda: "ada", access.reads_dag: lambda: None}
    client = TestClient(pages)
    addresses = {
        "overview": "/",
        "overview, filtered": "/?state=ok&name=0",
        "home card": "/health.json",
        "corpus": "/dags/refresh_corpus_00",
    }
    return [Row(name, "ms", _median_ms(client, address), goal=f"at most {MOST_MS}") for name, address in addresses.items()]


def _median_ms(client: "TestClient", address: str) -> float:
    durations = []
    for _ in range(1 + REQUESTS):
        began = time.perf_counter()
        reply = client.get(address)
        durations.append(1000 * (time.perf_counter() - began))
        assert reply.status_code == 200, reply.text
    return statistics.median(durations[1:])


if __name__ == "__main__":
    main()
