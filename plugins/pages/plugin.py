"""The plugin that Airflow finds by its entry point."""

from airflow.plugins_manager import AirflowPlugin

from plugins.pages.app import create_app

_ICON = "inset/static/icon.svg"
_ICON_DARK = "inset/static/icon_dark.svg"


class InsetPlugin(AirflowPlugin):
    """Adds Inset to the navigation, a tab to DAGs and to runs, and a card to the home page. Addresses are relative."""

    name = "inset"
    fastapi_apps = [{"app": create_app(), "url_prefix": "/inset", "name": "inset"}]  # noqa: RUF012  as Airflow reads it
    external_views = [  # noqa: RUF012
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
    react_apps = [  # noqa: RUF012
        {"name": "InsetHealth", "bundle_url": "inset/static/card.js", "destination": "dashboard", "url_route": "inset_card"}
    ]
