"""Models where release 0.2.0 kept them in a corpus file: what to write now, and what its versions' manifests say."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from schemas.corpus.models import EmbeddingModels, EmbeddingOptions, EntryKind, ModelEntry, embedding_models
from schemas.models import MINILM

_KINDS = {"ocr_llm": EntryKind.LLM, "late": EntryKind.LATE_SCORER}
"""Kinds that had other names."""

_OF_SPACES = {"tables": EntryKind.TEXT_EMBEDDER, "image": EntryKind.IMAGE_EMBEDDER, "late": EntryKind.LATE_EMBEDDER}
_OF_THE_SERVER = ("dimension", "price", "shorten")
_NAMES = ("parts", "tables", "image", "late")


def moved_models(file: Mapping[str, Any]) -> list[str]:
    """Return a line for each section of a corpus file that describes models in the old way, with what to write in its place."""
    return [*_moved_models(file)]


def _moved_models(file: Mapping[str, Any]) -> Iterator[str]:
    for section in ("captions", "retrieval"):
        options = file.get(section)
        models = options.get("models") if isinstance(options, dict) else None
        if isinstance(models, dict):
            entries = {name: _entry(model) for name, model in models.items() if isinstance(model, dict)}
            yield f"{section}.models: models have one table now; write 'models: {_flow(entries)}'"
    embeddings = file.get("embeddings")
    if isinstance(embeddings, dict):
        entries, names = _converted(embeddings)
        if entries or isinstance(embeddings.get("unified"), dict):
            models_text = f"'models: {_flow(entries)}' and " if entries else ""
            yield f"embeddings: it names models, which have a table of their own; write {models_text}'embeddings: {_flow(names)}'"


def stored_embedding_models(parameters: Mapping[str, Any]) -> EmbeddingModels:
    """Return the embedding models by which a version was built, from the parameters of its manifest."""
    options = parameters.get("embeddings") or {}
    entries, names = (parameters["models"], options) if "models" in parameters else _converted(options)
    models = {name: ModelEntry.model_validate(entry) for name, entry in entries.items()}
    return embedding_models(models, EmbeddingOptions.model_validate(names))


def _converted(embeddings: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the entries of a section embeddings of release 0.2.0, and the section that names them."""
    entries: dict[str, dict[str, Any]] = {}
    names = {name: value for name in _NAMES if (value := embeddings.get(name)) and not isinstance(value, dict)}
    text_options = {
        name: value for name, value in embeddings.items() if name in (*EntryKind.TEXT_EMBEDDER.options, "revision")
    }
    if any(value is not None for value in text_options.values()):
        entries["text"] = _entry({"model": embeddings.get("text", MINILM), **text_options}, EntryKind.TEXT_EMBEDDER)
        names["text"] = "text"
    elif "text" in embeddings:
        names["text"] = embeddings["text"]
    for name, kind in _OF_SPACES.items():
        if isinstance(options := embeddings.get(name), dict):
            entries[name] = _entry(options, kind)
            names[name] = name
            if options.get("texts"):
                names["parts"] = [*names.get("parts", ()), "joint"]
    if isinstance(unified := embeddings.get("unified"), dict):
        names["unified"] = unified.get("combine", "mean")
    elif unified:
        names["unified"] = unified
    return entries, names


def _entry(options: Mapping[str, Any], kind: EntryKind | None = None) -> dict[str, Any]:
    """Return an entry of the table from the options of a model; what its kind doesn't have is left out."""
    if kind is None:
        name = str(options.get("kind"))
        kind = _KINDS.get(name) or next((known for known in EntryKind if known == name), EntryKind.VLM)
    values = {name: value for name, value in options.items() if value is not None}
    if kind is EntryKind.TEXT_EMBEDDER and isinstance(endpoint := values.get("endpoint"), dict):
        values |= {name: endpoint[name] for name in _OF_THE_SERVER if name in endpoint}
        values["endpoint"] = {name: value for name, value in endpoint.items() if name not in _OF_THE_SERVER}
    known = {"model", "revision", *kind.options}
    return {"kind": str(kind), **{name: value for name, value in values.items() if name in known}}


def _flow(value: object) -> str:
    return str(yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1 << 20, allow_unicode=True)).strip()
