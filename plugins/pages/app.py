"""The web application of the pages, which Airflow's API server mounts."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from plugins.pages import corpus, overview
from plugins.pages.rendering import WEB, render
from schemas.errors import InsetError, UserError

ROUTERS = (overview.router, corpus.router)


def create_app() -> FastAPI:
    """Return the application. Only the files of ``web/``, which show nothing of a corpus, are public."""
    app = FastAPI(title="Inset", openapi_url=None)
    for router in ROUTERS:
        app.include_router(router)
    app.exception_handler(InsetError)(_explain)
    app.mount("/static", StaticFiles(directory=WEB), name="static")
    return app


def _explain(request: Request, error: InsetError) -> HTMLResponse:
    """Show a known error as a page."""
    status, title = (404, "Not found") if isinstance(error, UserError) else (503, "This can't be read now")
    return render(request, "error.html", status, title=title, lines=error.message.splitlines())
