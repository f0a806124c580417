"""Generate the models of the client, its table of filters and its synchronous half; build the package with them.

Input are the OpenAPI document of the service and ``inset_client/_async``. ``make`` runs this module in a checkout, where
``pyproject.toml`` names it as build backend too. A source distribution contains what was generated, and not its input.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the hooks that generate nothing

PACKAGE = Path(__file__).resolve().parent
API = PACKAGE.parent.parent / "tests" / "golden" / "openapi.json"
ASYNC = PACKAGE / "inset_client" / "_async" / "__init__.py"
MODELS = PACKAGE / "inset_client" / "models.py"
FILTERS = PACKAGE / "inset_client" / "filters.json"
SYNC = PACKAGE / "inset_client" / "_sync" / "__init__.py"

_SYNC_NAMES = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "asyncio": "time",
}


def generate() -> None:
    """Write what is missing or older than its input."""
    if API.is_file() and _is_stale(FILTERS, API, Path(__file__)):
        schemas = json.loads(API.read_bytes())["components"]["schemas"]
        FILTERS.write_text(json.dumps(_without_references(schemas["Filters"]["properties"], schemas)), encoding="utf-8")
    if API.is_file() and _is_stale(MODELS, API, PACKAGE / "pyproject.toml"):
        with tempfile.TemporaryDirectory(dir=PACKAGE) as folder:
            models = Path(folder, "models.py")
            command = (sys.executable, "-m", "datamodel_code_generator", "--input", API, "--output", models)
            subprocess.run(command, cwd=PACKAGE, check=True)
            models.replace(MODELS)
    if _is_stale(SYNC, ASYNC, Path(__file__)):
        import unasync

        with tempfile.TemporaryDirectory(dir=PACKAGE) as folder:
            source = Path(folder, "_async", "__init__.py")
            source.parent.mkdir()
            source.write_bytes(ASYNC.read_bytes())
            unasync.unasync_files([str(source)], [unasync.Rule("/_async/", "/_sync/", additional_replacements=_SYNC_NAMES)])
            SYNC.parent.mkdir(exist_ok=True)
            Path(folder, "_sync", "__init__.py").replace(SYNC)


def _without_references(schema: Any, schemas: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_without_references(part, schemas) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _without_references(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return {name: _without_references(part, schemas) for name, part in schema.items()}


def _is_stale(output: Path, *inputs: Path) -> bool:
    return not output.is_file() or output.stat().st_mtime < max(source.stat().st_mtime for source in inputs)


def _generating(build: Callable[..., str]) -> Callable[..., str]:
    """Return a hook of PEP 517 or 660 that generates before it builds."""

    def hook(*arguments: Any) -> str:
        generate()
        return build(*arguments)

    return hook


build_sdist, build_wheel, build_editable = map(
    _generating, (build_meta.build_sdist, build_meta.build_wheel, build_meta.build_editable)
)


if __name__ == "__main__":
    generate()
