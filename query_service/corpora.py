"""Open the corpora that a service serves."""

import logging
from collections.abc import Iterator, Sequence

from fastapi import FastAPI

from pipeline.corpus.schedules import corpus_schedules
from pipeline.published.corpus import PublishedCorpus, open_published
from query_service.app import create_app
from schemas.errors import NotFoundError, UserError
from workers.child_processes import prepare
from workers.draw_pages import PageDrawer

_logger = logging.getLogger("inset.query_service")


def open_app(names: Sequence[str] = (), hosts: Sequence[str] = ()) -> FastAPI:
    """Return the service for some corpora. Of all corpora, those whose files are wrong are left out, each with a line in the log.

    Args:
        names: Corpora by name or file; () means every one in the corpora folder.
        hosts: Names that it goes by, beside those of this machine itself.

    Raises:
        UserError: A corpus file that was named is missing or wrong, or there is none at all.
    """
    drawer = PageDrawer()  # one for all: what drawing costs doesn't grow with the corpora
    opened = [open_published(name, drawer) for name in names] if names else list(_healthy(drawer))
    if not opened:
        raise UserError("there is no corpus to serve; make one with: inset init")
    served: dict[str, PublishedCorpus] = {corpus.name: corpus for corpus in opened}

    def find(name: str) -> PublishedCorpus:
        if name not in served:
            raise NotFoundError(f"there is no corpus {name} here; there are: {', '.join(sorted(served))}")
        return served[name]

    prepare()
    return create_app(find, lambda: sorted(served), hosts=hosts, close=drawer.close)


def _healthy(drawer: PageDrawer) -> Iterator[PublishedCorpus]:
    for found in corpus_schedules():
        problem = found.problem
        if not problem:
            try:
                yield open_published(str(found.file), drawer)
            except UserError as error:
                problem = error.message
        for line in problem.splitlines():
            _logger.error("not served: %s", line)
