"""The demo: Airflow refreshes the example corpus and the service searches it. ``make demo`` runs it; Ctrl-C ends it.

Airflow's components are started one by one, since ``airflow standalone`` serves logs on all addresses and orphans its processes.
Every process of the demo has the variable ``INSET_DEMO`` in its environment, which survives new sessions and dead parents: the
demo ends the processes that have it.
"""

import json
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import NoReturn

from backends.stores.checked_store import join
from backends.stores.object_store import open_store
from infra.demo.airflow import CORPUS, DAG, STARTED_WITHIN_S, Airflow, Watch
from infra.demo.processes import (
    BIN,
    ENDED_WITHIN_S,
    HOME,
    ROOT,
    STATE,
    Children,
    DemoError,
    end_marked,
    environment,
    fetch,
    free_port,
    only_demo,
    say,
)
from pipeline.corpus.corpora import load_corpus
from pipeline.records.publication import read_pointer
from schemas.errors import InsetError

SERVICE_LOG = STATE / "service.log"
QUESTIONS = ("lcnc-10", "asy-03", "gnc-05")


@dataclass
class Service:
    """The query service."""

    children: Children
    port: int = field(default_factory=lambda: free_port(8750))

    @property
    def address(self) -> str:
        """URL of the search page."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        SERVICE_LOG.write_bytes(b"")
        command = [str(BIN / "inset"), "serve", CORPUS, "--port", str(self.port)]
        self.children.start("the query service", command, SERVICE_LOG, environment())
        self.children.wait("the query service", self._ready, STARTED_WITHIN_S)

    def _ready(self) -> bool:
        try:
            return bool(fetch(f"{self.address}readyz")["ready"])
        except (OSError, ValueError, KeyError):
            return False


def is_live() -> bool:
    """Return whether a version of the example corpus is published."""
    corpus = load_corpus(str(ROOT / "corpora" / f"{CORPUS}.yaml"))
    return read_pointer(open_store(join(corpus.store or "", corpus.name))) is not None


def questions() -> list[str]:
    """Return three of the golden questions."""
    lines = (ROOT / "examples" / CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [row["question"] for row in map(json.loads, filter(None, lines)) if row["id"] in QUESTIONS]


def show(service: Service, airflow: Airflow) -> None:
    """Print what to open."""
    say()
    say(f"  Search page   {service.address}")
    say(f"  Airflow       {airflow.address}/dags/{DAG}   user admin, password {airflow.password}")
    say()
    say("  Worth asking:")
    for question in questions():
        say(f"    {question}")
        say(f"      {service.address}?{urllib.parse.urlencode({'corpus': CORPUS, 'q': question})}")
    say()
    say("  Ctrl-C ends all of it.")


def demo(children: Children) -> NoReturn:
    """Start everything, refresh, and serve until interrupted."""
    if ended_count := end_marked(within_s=ENDED_WITHIN_S):
        say(f"ended {ended_count} processes that an earlier demo left running", timed=True)
    service = Service(children)
    airflow = Airflow(children, search_page=service.address)
    was_live = is_live()
    if was_live:
        say("starting the search page", timed=True)
        service.start()
        say(f"the search page is up: {service.address}", timed=True)
    say("starting Airflow; the first time this takes a minute or two", timed=True)
    airflow.start()
    say(f"Airflow is up: {airflow.address}", timed=True)
    succeeded = Watch(airflow, airflow.refresh()).until_done()
    if not succeeded:
        raise DemoError(f"the refresh failed; the logs of its tasks are in {HOME / 'logs'}")
    if not was_live:
        say("starting the search page", timed=True)
        service.start()
        say(f"the search page is up: {service.address}", timed=True)
    show(service, airflow)
    while True:
        children.check()
        time.sleep(1)


def main() -> int:
    """Run the demo, and end its processes however it ends."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    children = Children()
    status = 0
    try:
        with only_demo():
            try:
                demo(children)
            finally:
                for number in signals:
                    signal.signal(number, signal.SIG_IGN)
                say()
                say("ending what the demo started")
                children.end()
    except KeyboardInterrupt:
        pass
    except (DemoError, InsetError, OSError) as error:
        say(f"demo: {error}")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
