"""A source of 100,000 documents listed over HTTP and S3: ``python -m bench.listing [--documents N] [--json]``.

A server of this machine has sitemaps of 50,000 addresses with their days; a moto server has the objects, of a byte each. Each
listing runs in a process of its own, whose peak memory is measured. The floor is the same listing by ``boto3`` alone, and the
sitemaps read alone.
"""

import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

from bench.table import Row, parser_of, show

_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
_OF_A_SITEMAP = 50_000
"""Most addresses of one sitemap, by its protocol."""


def main() -> None:
    """List both sources, and print seconds and memory."""
    parser = parser_of("listing", __doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    documents = parser.parse_args().documents
    rows = [*_of_http(documents), *_of_s3(documents)]
    show(f"Listing {documents} documents that didn't change", rows)


def _measured(function: Callable[[str], int], address: str, documents: int) -> tuple[float, float]:
    """Return the seconds and the peak memory, in MiB, of a call in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        listed, seconds, mebibytes = process.apply(_timed, (function, address))
    assert listed == documents, f"{listed} documents were listed"
    return seconds, mebibytes


def _timed(function: Callable[[str], int], address: str) -> tuple[int, float, float]:
    started = time.monotonic()
    listed = function(address)
    return listed, time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _by_inset(address: str) -> int:
    from backends.stores.sources import open_source

    return len(open_source(address).files())


def _rows(name: str, address: str, documents: int, floor: Callable[[str], int]) -> Iterator[Row]:
    seconds, mebibytes = _measured(_by_inset, address, documents)
    floor_s, _ = _measured(floor, address, documents)
    yield Row(f"{name}: time", "s", seconds, floor_s, "listing alone", "at most 60, in the plan")
    yield Row(f"{name}: peak memory", "MiB", mebibytes, goal="at most 1,024, in the plan")


def _of_http(documents: int) -> Iterator[Row]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(_page(self.path, f"http://{self.headers['Host']}", documents))

        def do_HEAD(self) -> None:
            self._reply(b"")

        def _reply(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield from _rows("HTTP", f"http://127.0.0.1:{server.server_port}/sitemap.xml", documents, _sitemaps_alone)
    server.shutdown()


def _page(path: str, root: str, documents: int) -> bytes:
    if path == "/sitemap.xml":
        parts = "".join(f"<sitemap><loc>{root}/{at}.xml</loc></sitemap>" for at in range(0, documents, _OF_A_SITEMAP))
        return f"<sitemapindex>{parts}</sitemapindex>".encode()
    start = int(path.strip("/").removesuffix(".xml"))
    urls = "".join(
        f"<url><loc>{root}/manuals/{number}.pdf</loc><lastmod>2026-11-{1 + number % 28:02}</lastmod></url>"
        for number in range(start, min(start + _OF_A_SITEMAP, documents))
    )
    return f"<urlset>{urls}</urlset>".encode()


def _sitemaps_alone(address: str) -> int:
    import re
    import urllib.request

    def read(of: str) -> str:
        return str(urllib.request.urlopen(of).read().decode())  # noqa: S310  a server of this process's parent

    locations = re.compile("<loc>([^<]+)</loc>")
    return sum(len(locations.findall(read(part))) for part in locations.findall(read(address)))


def _of_s3(documents: int) -> Iterator[Row]:
    from tests import s3_server

    with s3_server.running() as address, mock.patch.dict(os.environ, {**_KEYS, "AWS_ENDPOINT_URL": address}):
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket="bench")
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(
                lambda number: client.put_object(Bucket="bench", Key=f"manuals/{number}.pdf", Body=b"x"), range(documents)
            ):
                pass
        yield from _rows("S3", "s3://bench/manuals", documents, _objects_alone)


def _objects_alone(address: str) -> int:
    import boto3

    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return sum(len(page.get("Contents", [])) for page in pages)


if __name__ == "__main__":
    main()
