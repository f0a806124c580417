"""Open the corpora that a service serves."""

from collections.abc import Sequence

from fastapi import FastAPI

from pipeline.corpora import corpus_files
from pipeline.published import PublishedCorpus, open_published
from query_service.app import create_app
from ray_jobs.children import prepare
from ray_jobs.draw_pages import PageDrawer
from schemas.errors import NotFoundError, UserError


def open_app(names: Sequence[str] = (), hosts: Sequence[str] = ()) -> FastAPI:
    """Return the service for some corpora.

    Args:
        names: Corpora by name or file; () means every one in the corpora folder.
        hosts: Names that it goes by, beside those of this machine itself.

    Raises:
        UserError: A corpus file is missing or wrong, or there is none at all.
    """
    drawer = PageDrawer()  # one for all: what drawing costs doesn't grow with the corpora
    opened = [open_published(name, drawer) for name in (names or [str(path) for path in corpus_files()])]
    if not opened:
        raise UserError("there is no corpus to serve; make one with: inset init")
    served: dict[str, PublishedCorpus] = {corpus.name: corpus for corpus in opened}

    def find(name: str) -> PublishedCorpus:
        if name not in served:
            raise NotFoundError(f"there is no corpus {name} here; there are: {', '.join(sorted(served))}")
        return served[name]

    prepare()
    return create_app(find, lambda: sorted(served), hosts=hosts, close=drawer.close)
