"""The web application of the pages, which Airflow's API server mounts."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from plugins.pages import corpus, figures, overview, pictures, quarantine, search
from plugins.pages.rendering import WEB, render
from schemas.errors import BadInputError, InsetError, RequestError, UserError

ROUTERS = (overview.router, corpus.router, quarantine.router, figures.router, search.router, pictures.router)


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
    match error:
        case RequestError():
            status, title = 400, "This can't be answered"
        case UserError():
            status, title = 404, "Not found"
        case BadInputError():
            status, title = 422, "This can't be shown"
        case _:
            status, title = 503, "This can't be read now"
    return render(request, "error.html", status, title=title, lines=error.message.splitlines())
