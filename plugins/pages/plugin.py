"""The plugin that Airflow finds by its entry point, and the web application of its pages, which the API server mounts."""

from airflow.plugins_manager import AirflowPlugin
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from plugins.pages import corpus, overview, pictures, runs
from plugins.pages.rendering import WEB, render
from schemas.errors import BadInputError, InsetError, RequestError, UserError

_ICON = "inset/static/icon.svg"
_ICON_DARK = "inset/static/icon_dark.svg"


ROUTERS = (overview.router, corpus.router, runs.router, pictures.router)


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


class InsetPlugin(AirflowPlugin):
    """Adds Inset to the navigation, a tab to DAGs and to runs, and a card to the home page. Addresses are relative."""

    name = "inset"
    fastapi_apps = [{"app": create_app(), "url_prefix": "/inset", "name": "inset"}]
    external_views = [
        {
            "name": "Inset",
            "href": "inset/",
            "destination": "nav",
            "url_route": "inset",
            "nav_top_level": True,
            "icon": _ICON,
            "icon_dark_mode": _ICON_DARK,
        },
        {
            "name": "Inset",
            "href": "inset/dags/{DAG_ID}",
            "destination": "dag",
            "url_route": "inset_corpus",
            "icon": _ICON,
            "icon_dark_mode": _ICON_DARK,
        },
        {
            "name": "Inset",
            "href": "inset/dags/{DAG_ID}/runs/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "inset_run",
            "icon": _ICON,
            "icon_dark_mode": _ICON_DARK,
        },
    ]
    react_apps = [
        {"name": "InsetHealth", "bundle_url": "inset/static/card.js", "destination": "dashboard", "url_route": "inset_card"}
    ]
