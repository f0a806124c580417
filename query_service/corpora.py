"""Open the corpora that a service serves."""

from collections.abc import Sequence

from fastapi import FastAPI

from pipeline.corpora import corpus_files
from pipeline.published import PublishedCorpus, open_published
from query_service.app import create_app
from schemas.errors import NotFoundError, UserError


def open_app(names: Sequence[str] = ()) -> FastAPI:
    """Return the service for some corpora.

    Args:
        names: Corpora by name or file; () means every one in the corpora folder.

    Raises:
        UserError: A corpus file is missing or wrong, or there is none at all.
    """
    opened = [open_published(name) for name in (names or [str(path) for path in corpus_files()])]
    if not opened:
        raise UserError("there is no corpus to serve; make one with: inset init")
    served: dict[str, PublishedCorpus] = {corpus.name: corpus for corpus in opened}

    def find(name: str) -> PublishedCorpus:
        if name not in served:
            raise NotFoundError(f"there is no corpus {name} here; there are: {', '.join(sorted(served))}")
        return served[name]

    return create_app(find, lambda: sorted(served))
