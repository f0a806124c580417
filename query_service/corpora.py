"""Open the corpora to serve."""

from collections.abc import Sequence

from fastapi import FastAPI

from pipeline.published.corpus import every_published, open_published
from query_service.access import Access
from query_service.access_log import LOGS, LogOptions
from query_service.admission import DEADLINE_S
from query_service.app import create_app
from schemas.errors import UserError
from workers.child_processes import prepare
from workers.draw_pages import PageDrawer
from workers.picture_files import PictureFiles


def open_app(
    names: Sequence[str] = (),
    hosts: Sequence[str] = (),
    *,
    deadline_s: float = DEADLINE_S,
    access: Access | None = None,
    logs: LogOptions = LOGS,
    origins: Sequence[str] = (),
    pictures: PictureFiles | None = None,
) -> FastAPI:
    """Return the service for some corpora.

    Args:
        names: Corpora by name or file; () for every one in the corpora folder, where those with a wrong file are left out and
            logged.
        hosts: Host names of the service besides those of loopback.
        deadline_s: Time for a search, in seconds.
        access: Who may ask; everyone where None.
        logs: What is logged of requests.
        origins: Origins whose pages may call the service.
        pictures: Keeps pictures of pages.

    Raises:
        UserError: A named corpus file is missing or wrong, or there is no corpus.
    """
    drawer = PageDrawer(files=pictures)  # shared, so that its processes don't multiply with the corpora
    opened = [open_published(name, drawer) for name in names] if names else list(every_published(drawer))
    if not opened:
        raise UserError("there is no corpus to serve; make one with: inset init")
    prepare()
    corpora = {corpus.name: corpus for corpus in sorted(opened, key=lambda corpus: corpus.name)}
    return create_app(
        corpora,
        hosts=hosts,
        deadline_s=deadline_s,
        access=access,
        logs=logs,
        origins=origins,
        close=drawer.close,
    )
