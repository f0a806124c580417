"""Whatever the OpenAPI document allows, and what it doesn't, sent to a corpus that is really there: no answer is a 5xx."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.errors import InvalidSchema
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from query_service.app import create_app
from schemas.retrieval import Query
from tests.conftest import GOLDEN
from tests.pipeline.conftest import refreshed_once
from tests.versions import ALWAYS

__all__ = ["refreshed_once"]

pytestmark = pytest.mark.slow

EXAMPLES = 30
HEADERS = {"host": "localhost"}
DIGEST = re.compile("[0-9a-f]{64}")
WELL_FORMED = {
    "corpus": re.compile("[a-z][a-z0-9_]{0,39}"),
    "doc_id": DIGEST,
    "figure_id": DIGEST,
    "evidence_id": re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
}
DOCUMENT = json.loads((GOLDEN / "openapi.json").read_text(encoding="utf-8"))
FREE_TEXT = {"type", "examples", "title"}
"""Keywords of a parameter that any text fits, such as the name of a corpus: what names none is 404."""
ASKS = {
    f"{method} {path}": bool(
        operation.get("requestBody")
        or any(parameter["schema"].keys() - FREE_TEXT for parameter in operation.get("parameters", []))
    )
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
"""The operations, and whether a request can be wrong about what they take."""

NO_LIMIT_S = 3600

TOO_LARGE = "413"
"""A schema bounds each value of a body, not their sum: a large body is refused whether it is well-formed or not."""

CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            "negative_data_rejection": {"expected-statuses": ["400", "401", "403", "404", "422", "429", "503", TOO_LARGE]},
            "positive_data_acceptance": {"expected-statuses": ["2xx", "3xx", "401", "403", "404", "429", "503", TOO_LARGE]},
        }
    }
)


@pytest.fixture(scope="module")
def corpus(refreshed_once: Path) -> Iterator[PublishedCorpus]:
    published = PublishedCorpus(open_workspace(str(refreshed_once / "corpora" / "manuals.yaml")))
    yield published
    published.close()


@pytest.fixture(scope="module")
def apis(corpus: PublishedCorpus) -> dict[GenerationMode, Any]:
    return {mode: _api(corpus, mode) for mode in GenerationMode}


def _api(corpus: PublishedCorpus, mode: GenerationMode) -> Any:
    app = create_app({"manuals": corpus})
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=CONFIG, headers=HEADERS)
    hit = next(hit for hit in corpus.search(Query("steel winch", k=50)).hits if hit.figure_refs)
    known_values = {
        "corpus": "manuals",
        "doc_id": hit.doc_id,
        "figure_id": hit.figure_refs[0],
        "evidence_id": hit.evidence_id,
    }

    @schema.hook
    def map_path_parameters(_context: Any, path_parameters: Any) -> Any:
        # Digests by chance name nothing: of those that are well-formed, most become real ones.
        for name, value in (path_parameters or {}).items():
            if name in known_values and WELL_FORMED[name].fullmatch(str(value)) and str(value)[-1] not in "0a":
                path_parameters[name] = known_values[name]
        return path_parameters

    @schema.hook
    def map_query(_context: Any, query: Any) -> Any:
        # A cursor that no reply has given is refused, and rightly.
        if query and mode is GenerationMode.POSITIVE:
            query.pop("cursor", None)
        return query

    @schema.hook
    def map_body(_context: Any, body: Any) -> Any:
        # A preset that isn't there and steps over vectors that this version lacks are refused, and rightly; what is wrong about
        # a body must stay in it.
        if isinstance(body, dict) and mode is GenerationMode.POSITIVE:
            if "event" in body:  # which event of a webhook has a question, only prose says
                return {**body, "question": "winch" if body["event"] == "question_changed" else None}
            if isinstance(body.get("preset"), str):
                body["preset"] = ALWAYS[0]
            # No preset here looks at pictures.
            if body.pop("picture", None) is not None and not body.get("query") and "question" not in body:
                body["query"] = "winch"
            # What a query needs beside its type, only prose says.
            for name in ("query", "question"):
                if not any(map(str.isalnum, str(body.get(name) or ""))) and (name == "query") != ("question" in body):
                    body[name] = "winch"
            # No model writes here, and names of what isn't there are refused.
            if isinstance(body.get("answer"), str):
                body["answer"] = "extractive"
            if isinstance(body.get("settings"), dict):
                name_settings = ("model", "prompt", "retrieval")
                body["settings"] = {name: value for name, value in body["settings"].items() if name not in name_settings}
            if isinstance(body.get("steps"), dict):
                body["steps"] = {name: step for name, step in body["steps"].items() if name == "select"}
            if isinstance(body.get("filters"), dict):  # this corpus has no fields of its own
                body["filters"].pop("where", None)
            if body.get("highlight"):  # the nearest sentences of many hits are refused for their price
                body["highlight"] = False
        return body

    return schema


def _takes_a_list(operation: dict[str, Any]) -> bool:
    return any('"array"' in json.dumps(parameter["schema"]) for parameter in operation.get("parameters", []))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", ASKS)
def test_no_request_breaks_the_service(apis: dict[GenerationMode, Any], operation: str, mode: GenerationMode) -> None:
    method, path = operation.split()
    if mode is GenerationMode.NEGATIVE and not ASKS[operation]:
        pytest.skip("there is nothing in it to be wrong about")
    # What a box is, no JSON schema can say.
    unfit: list[Any] = [positive_data_acceptance] if path.endswith(".png") else []
    # In an address, a single value is a list of one, whatever its type.
    unfit += [negative_data_rejection] if _takes_a_list(DOCUMENT["paths"][path][method]) else []
    strategy = apis[mode][path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        try:
            case: schemathesis.Case[Any] = data.draw(strategy)
        except (
            InvalidSchema
        ):  # a list of something that no value is: the generator's own way to be wrong, which it can't draw
            reject()
        case.call_and_validate(headers=HEADERS, timeout=NO_LIMIT_S, excluded_checks=unfit)

    ask()
