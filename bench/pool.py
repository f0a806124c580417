"""A pool of actors over Ray nodes with pretended GPUs: ``python -m bench.pool [--cost 0.5]``.

Nodes are processes of this machine, and the model sleeps for a known time, so only the pool itself is measured: throughput from
1 to 8 actors on two and on four nodes, a node that dies and one that joins in the middle, and the driver's memory over 250,000
items.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from bench.table import Row, parser_of, show
from ray_jobs.cluster import actors, connected
from ray_jobs.pools import Outcome, run_pool
from schemas.base import batched
from schemas.corpus.operations import RayOptions
from tests import ray_cluster
from tests.ray_cluster import RayCluster

MOST_ACTORS = 8
ITEMS, ITEM_BYTES, ROWS = 250_000, 1_000, 64
"""Items of the test of memory, their size, and rows of a batch."""

SETTLED = 0.4
"""Share of the items after which Ray's own buffers have grown to their size: some 80 MiB."""


class Sleeper:
    """An actor whose batches take a known time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, batch: Sequence[tuple[str, Any]]) -> list[Outcome[int]]:
        """Sleep, and return the size of each row."""
        time.sleep(self._seconds)
        return [Outcome(row_id, len(row)) for row_id, row in batch]


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of("pool", __doc__)
    parser.add_argument("--cost", type=float, default=0.5, help="seconds of a batch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    cost = parser.parse_args().cost
    os.environ |= ray_cluster.AUTH
    for nodes in (2, 4):
        with (
            ray_cluster.running(*[2] * nodes, gpus=MOST_ACTORS // nodes) as cluster,
            connected(RayOptions(address=cluster.address)),
        ):
            rows = [*scaling(cost)]
            if nodes == 4:
                rows += [*losing_a_node(cluster, cost), *memory()]
        load = os.getloadavg()[0]
        show(
            f"{nodes} Ray nodes with {MOST_ACTORS // nodes} pretended GPUs each, batches of {cost} s, load {load:.0f}", rows
        )


def scaling(cost: float) -> Iterator[Row]:
    """Yield batches a second by number of actors, while all of them work."""
    for workers in (1, 2, 4, MOST_ACTORS):
        ended = [at for at, _ in timed(cost, 40 * workers, workers)]
        full = ended[4 * workers : -2 * workers]  # neither start nor end
        rate = (len(full) - 1) / (full[-1] - full[0])
        yield Row(f"{workers} actors", "batches/s", rate, workers / cost, "linear", "0.95")


def timed(cost: float, count: int, workers: int) -> Iterator[tuple[float, str]]:
    """Yield the time at which each of ``count`` batches of one row is finished, and its row."""
    batches = ([(str(number), b"")] for number in range(count))
    for outcomes in run_pool(Sleeper, (cost,), batches, workers=workers, num_cpus=0.5, num_gpus=1):
        yield from ((time.perf_counter(), outcome.row_id) for outcome in outcomes)


def losing_a_node(cluster: RayCluster, cost: float) -> Iterator[Row]:
    """Yield what it costs when a quarter of the nodes dies after a quarter of the work, and another joins at half of it."""
    count, seen, began = 60 * MOST_ACTORS, Counter[str](), time.perf_counter()
    for _, row_id in timed(cost, count, MOST_ACTORS):
        seen[row_id] += 1
        if seen.total() == count // 4:
            cluster.kill(cluster.nodes[-1])
        if seen.total() == count // 2:
            cluster.add(cpus=2, gpus=MOST_ACTORS // 4)
    if seen != Counter(map(str, range(count))):
        raise SystemExit("a row has no outcome, or several")
    yield Row("a node dies, another joins", "s", time.perf_counter() - began, count * cost / MOST_ACTORS, "undisturbed")


def memory() -> Iterator[Row]:
    """Yield how much the driver grows in all, and after ``SETTLED``."""
    items = ((str(number), bytes(ITEM_BYTES)) for number in range(ITEMS))
    process, sizes = psutil.Process(), []
    workers, gpus = actors(1.0, None, 1)
    made = run_pool(Sleeper, (0.0,), batched(items, ROWS), workers=workers, num_gpus=gpus, num_cpus=0.5)
    for number, _ in enumerate(made):
        if number % 50 == 0:
            sizes.append(process.memory_info().rss / 2**20)
    settled = sizes[int(SETTLED * len(sizes))]
    yield Row(f"driver's growth, {ITEMS} items", "MiB", max(sizes) - sizes[0])
    yield Row(f"  of it after the first {SETTLED:.0%}", "MiB", max(sizes) - settled)


if __name__ == "__main__":
    main()
