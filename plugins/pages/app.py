"""The web application of the pages, which Airflow's API server mounts."""

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from plugins.pages import overview
from plugins.pages.rendering import WEB

ROUTERS = (overview.router,)


def create_app() -> FastAPI:
    """Return the application. Only the files of ``web/``, which show nothing of a corpus, are public."""
    app = FastAPI(title="Inset", openapi_url=None)
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=WEB), name="static")
    return app
