"""Search presets: each YAML file beside this module, or in a corpus's folder of presets, is a plan with a name."""

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from schemas.corpus import DEFAULT_PRESET
from schemas.errors import RequestError
from schemas.models import DEFAULT_SPACE
from schemas.retrieval import NamedPreset, Preset, PresetInfo, Steps
from tasks.enriching.spaces import SPACES

Named = TypeVar("Named", bound=NamedPreset)


class PresetError(ValueError):
    """A file isn't a preset; the message doesn't name the file."""


@functools.cache
def packaged() -> Mapping[str, Preset]:
    """Return the packaged presets by name: the default, then those without requirements, then the others."""
    return read_packaged(__name__, read_preset, _sort_key)


def read_packaged(
    package: str, read: Callable[[str, Mapping[Any, Any]], Named], order: Callable[[Named], Any]
) -> dict[str, Named]:
    """Return the presets in the YAML files of a package, by name, in the given order."""
    presets = [
        read(file.name.removesuffix(".yaml"), yaml.safe_load(file.read_text(encoding="utf-8")))
        for file in files(package).iterdir()
        if file.name.endswith(".yaml")
    ]
    return {preset.name: preset for preset in sorted(presets, key=order)}


def read_preset(name: str, contents: Mapping[Any, Any]) -> Preset:
    """Return the preset of a YAML mapping; ``name`` is the stem of its file; raises ``PresetError`` if it isn't one."""
    return read_named(name, contents, _valid)


def read_named(name: str, contents: Mapping[Any, Any], validate: Callable[[Mapping[Any, Any]], Named]) -> Named:
    """Validate a YAML mapping under the stem of its file; arguments and errors as for ``read_preset``."""
    if contents.get("name", name) != name:
        raise PresetError(f"name: it is called by its file, {name}; leave 'name' out")
    try:
        return validate({**contents, "name": name})
    except ValueError as error:
        raise PresetError(mistake(error)) from error


def preset_named(name: str, presets: Mapping[str, Named]) -> Named:
    """Return a preset; raises ``RequestError`` if the name is unknown."""
    if name not in presets:
        raise RequestError(f"there is no preset {name!r}; use one of {', '.join(presets)}")
    return presets[name]


def changed(preset: Preset, steps: Mapping[str, Any]) -> Preset:
    """Return a preset with some steps overridden: keys that a step omits keep their values; lists are replaced.

    Raises ``RequestError`` if the result isn't a valid plan.
    """
    if unknown := sorted(set(steps) - set(Steps.model_fields)):
        raise RequestError(f"a search has no step {unknown[0]!r}; its steps are {', '.join(Steps.model_fields)}")
    preset_fields = preset.model_dump(exclude_unset=True)
    if "retrieve" in steps:
        preset_fields.get("fuse", {}).pop("weights", None)  # of other retrievers
    merged = _merge(preset_fields, steps)
    try:
        return _valid(merged)
    except ValueError as error:
        raise RequestError(f"steps: {mistake(error)}") from error


def alone(preset: Preset) -> list[Preset]:
    """Return a preset for each retriever of several, without those that answer few questions, such as ``places``; else []."""
    if len(preset.retrieve) < 2:
        return []
    searching = [retriever for retriever in preset.retrieve if retriever.stands_alone]
    titles = [retriever.preset_name for retriever in searching]
    names = [
        title if titles.count(title) == 1 else f"{title}-{titles[: index + 1].count(title)}"
        for index, title in enumerate(titles)
    ]
    return [
        Preset(name=name, label=name, sentence=name, retrieve=[retriever])
        for name, retriever in zip(names, searching, strict=True)
    ]


def steps_of(preset: Preset) -> dict[str, Any]:
    """Return the steps of a preset as JSON; equal for presets that do the same."""
    return preset.model_dump(mode="json", include=set(Steps.model_fields))


def preset_info(preset: Preset, missing: Sequence[str] = ()) -> PresetInfo:
    """Return the listing of a preset; ``missing`` is what the version lacks for it."""
    steps = Steps.model_validate(preset.model_dump(include=set(Steps.model_fields), exclude_unset=True))
    vectors, models = [f"vectors {space}" for space in preset.spaces], [f"a model {name}" for name in preset.models]
    pages = ["rows of pages"] if preset.searches_only_pages else []
    identity = preset.model_dump(include={"name", "label", "sentence", "source"})
    return PresetInfo(**identity, needs=[*vectors, *models, *pages], missing=list(missing), steps=steps)


def _valid(contents: Mapping[Any, Any]) -> Preset:
    preset = Preset.model_validate(contents)
    if unknown := [space for space in preset.spaces if space not in SPACES]:
        raise ValueError(f"space: there are no vectors {unknown[0]!r}; use {', '.join(SPACES)}")
    return preset


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    kind = base.get("by")
    if isinstance(kind, str) and override.get("by", kind) != kind:
        return dict(override)  # a retriever of another kind has other keys
    merged = dict(base)
    for name, value in override.items():
        default = merged.get(name)
        merged[name] = _merge(default, value) if isinstance(default, dict) and isinstance(value, Mapping) else value
    return merged


def _sort_key(preset: Preset) -> tuple[bool, bool, str]:
    needs = {*preset.spaces, *preset.models} - {DEFAULT_SPACE} or preset.searches_only_pages
    return preset.name != DEFAULT_PRESET, bool(needs), preset.name


def mistake(error: ValueError) -> str:
    """Describe an invalid plan, and its correction, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    mistake = error.errors()[0]
    # The location of an error holds the retriever's kind between its number and its key.
    key = ".".join(str(part) for part in mistake["loc"])
    match mistake["type"]:
        case _ if mistake["loc"] == ("name",):
            problem = "a preset is named by small letters, digits and dashes, 60 at most; give the file such a name"
        case "extra_forbidden":
            problem = "unknown key; leave it out, or correct its name"
        case "missing":
            problem = f"this key is required; add '{mistake['loc'][-1]}: …'"
        case "union_tag_invalid":
            problem = f"there is none {mistake['ctx']['tag']!r}; use {mistake['ctx']['expected_tags']}"
        case "union_tag_not_found":
            problem = "say which, such as 'by: …'"
        case "model_type" | "model_attributes_type":
            problem = "write keys with values here, such as {key: value}"
        case _:
            problem = mistake["msg"].removeprefix("Value error, ")
    return f"{key}: {problem}" if key else problem
