"""Generate the client, its models and its synchronous half; build the package with them.

Input are the OpenAPI document of the service and ``inset_client/_async``. ``make`` runs this module in a checkout, where
``pyproject.toml`` names it as build backend too. A source distribution contains what was generated, and not its input.
"""

import json
import re
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
ASYNC = PACKAGE / "inset_client" / "_async"
SYNC = PACKAGE / "inset_client" / "_sync"
CLIENT = ASYNC / "client.py"
MODELS = PACKAGE / "inset_client" / "models.py"

_SYNC_NAMES = {
    "_async": "_sync",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncConnection": "Connection",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "asyncio": "time",
}


_CLIENT = '''"""The client of a service; generated from its OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from inset_client._async import AsyncConnection

if TYPE_CHECKING:
    from inset_client import models


class AsyncClient(AsyncConnection):
    """A client of one service; arguments and errors are those of its connection.

    Methods are named like the operations of the OpenAPI document, and take and return its objects as dictionaries with types.
    """
'''
_METHOD = '''
    async def {name}({declared}) -> {reply}:
        """{about}"""
        {returned}
'''
_SENT = {
    "answer": '{**body, "stream": False}',
    "answer_corpora": '{**body, "stream": False}',
    "table": '{**query, "format": "json"}',
}
"""What is sent by operations of which other methods ask for another form of the reply: ``answer_events``, ``table_file``."""


def generate() -> None:
    """Write what is missing or older than its input."""
    if API.is_file() and _is_stale(CLIENT, API, Path(__file__)):
        CLIENT.write_text(_client(json.loads(API.read_bytes())["paths"]), encoding="utf-8")
    if API.is_file() and _is_stale(MODELS, API, PACKAGE / "pyproject.toml"):
        with tempfile.TemporaryDirectory(dir=PACKAGE) as folder:
            models = Path(folder, "models.py")
            command = (sys.executable, "-m", "datamodel_code_generator", "--input", API, "--output", models)
            subprocess.run(command, cwd=PACKAGE, check=True)
            models.replace(MODELS)
    if _is_stale(SYNC / CLIENT.name, CLIENT, ASYNC / "__init__.py", Path(__file__)):
        import unasync

        with tempfile.TemporaryDirectory(dir=PACKAGE) as folder:
            sources = [Path(folder, "_async", source.name) for source in ASYNC.glob("*.py")]
            sources[0].parent.mkdir()
            for source in sources:
                source.write_bytes((ASYNC / source.name).read_bytes())
            rule = unasync.Rule("/_async/", "/_sync/", additional_replacements=_SYNC_NAMES)
            unasync.unasync_files([*map(str, sources)], [rule])
            SYNC.mkdir(exist_ok=True)
            for source in sources:
                Path(folder, "_sync", source.name).replace(SYNC / source.name)


def _client(paths: dict[str, dict[str, Any]]) -> str:
    """Return the source of the client: a method an operation, with its parameters, description and reply."""
    methods = [
        _method(path.removeprefix("/v1/"), verb.upper(), operation)
        for path, operations in paths.items()
        for verb, operation in operations.items()
        if path.startswith("/v1/")
    ]
    return "".join([_CLIENT, *methods])


def _method(path: str, verb: str, operation: dict[str, Any]) -> str:
    name, path_names = operation["operationId"], re.findall(r"{(\w+)}", path)
    model = f"models.{name.title().replace('_', '')}"
    kinds = {parameter["name"]: parameter["schema"].get("type") for parameter in operation.get("parameters", [])}
    declared = ["self", *(f"{part}: {'int' if kinds[part] == 'integer' else 'str'}" for part in path_names)]
    sent = [repr(verb), repr(re.sub(r"{\w+}", "{}", path)), *path_names]
    if "requestBody" in operation:
        body = _model(operation["requestBody"]["content"]["application/json"]["schema"])
        declared.append(f"**body: Unpack[{body}]")
        sent.append(f"body={_SENT.get(name, 'body')}")
    elif len(kinds) > len(path_names):
        declared.append(f"**query: Unpack[{model}ParametersQuery]")
        sent.append(f"query={_SENT.get(name, 'query')}")
    success = next(response for status, response in operation["responses"].items() if status < "300")
    reply, returned = "bytes", "return {}.content"
    if "content" not in success:
        reply, returned = "None", "{}"
    elif "application/json" in success["content"]:
        schema = success["content"]["application/json"]["schema"]
        reply, returned = _model(schema) if "$ref" in schema else f"{model}Response", "return {}.json()"
    return _METHOD.format(
        name=name,
        declared=", ".join(declared),
        reply=reply,
        about=operation["description"].partition("\n")[0],
        returned=returned.format(f"(await self.request({', '.join(sent)}))"),
    )


def _model(schema: dict[str, str]) -> str:
    return f"models.{schema['$ref'].rpartition('/')[2].replace('_', '')}"


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
