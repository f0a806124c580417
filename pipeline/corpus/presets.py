"""Retrieval presets of a corpus: packaged ones, and those in a folder of the corpus file."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pipeline.corpus.corpora import read_mapping
from pipeline.corpus.models import QueryModels
from pipeline.corpus.workspace import Workspace
from schemas.corpus import RetrievalOptions
from schemas.errors import RequestError, UserError
from schemas.retrieval import Preset
from tasks.answering.presets import PresetError, packaged, preset_named, read_preset
from tasks.answering.retrieve import lacking_models, lacking_rows

_YAML = {".yaml", ".yml"}
Stamp = tuple[Path, int, int]
"""Path, modification time and size of a file."""

Own = TypeVar("Own")


def presets_of(options: RetrievalOptions) -> Mapping[str, Preset]:
    """Return all presets by name, packaged ones first; a folder is read again when a file in it changes.

    Raises:
        UserError: The folder can't be read, or a file in it is invalid or has the name of a packaged preset.
    """
    return own_presets(
        options.presets, "retrieval.presets", packaged, read_preset, "it needs 'label', 'sentence' and 'retrieve'"
    )


def preset_of(options: RetrievalOptions, name: str) -> Preset:
    """Return a preset; a packaged one even if the folder is broken.

    Raises:
        RequestError: There is none of that name.
        UserError: As for ``presets_of``.
    """
    return preset_named(name, packaged() if name in packaged() else presets_of(options))


def default_preset(options: RetrievalOptions) -> Preset:
    """Return the default preset.

    Raises:
        UserError: The corpus file's default doesn't exist.
    """
    try:
        return preset_of(options, options.preset)
    except RequestError as error:  # the corpus file's mistake, not the request's
        raise UserError(f"retrieval.preset of the corpus file: {error.message}") from error


def check_default_preset(workspace: Workspace) -> Preset:
    """Return the default preset after checking that a version of these settings has what it needs.

    Raises:
        UserError: The corpus file's default doesn't exist, or such a version lacks something for it.
    """
    options = workspace.corpus.retrieval
    preset = default_preset(options)
    absent = lacking_rows(preset, workspace.spaces, has_pages=workspace.keys.drawn is not None)
    absent |= lacking_models(preset, QueryModels(workspace.corpus.models, {}))
    if absent:
        raise UserError(
            f"{workspace.file}: retrieval.preset: {preset.name} needs {', '.join(absent)}; set {', '.join(absent.values())}, "
            "or name another preset"
        )
    return preset


def own_presets(
    folder: str | None,
    setting: str,
    packaged: Callable[[], Mapping[str, Own]],
    read: Callable[[str, Mapping[Any, Any]], Own],
    needs: str,
) -> Mapping[str, Own]:
    """Return packaged presets and those in the YAML files of a folder, by name; it is read again when a file changes.

    Args:
        folder: The folder, if there is one.
        setting: The setting that names it, for messages.
        packaged: Returns the packaged presets.
        read: Makes a preset of a name and a file's content.
        needs: Required keys, for messages.

    Raises:
        UserError: The folder can't be read, or a file is invalid, or has the name of another preset.
    """
    if folder is None:
        return packaged()
    try:
        files = [
            (file, file.stat()) for file in sorted(Path(folder).iterdir()) if file.suffix in _YAML and file.name[0] != "."
        ]
    except OSError as error:
        raise UserError(f"{setting}: {error.filename or folder} can't be read: {error.strerror}") from error
    stamps = tuple((file, status.st_mtime_ns, status.st_size) for file, status in files)
    presets: Mapping[str, Own] = _read(stamps, packaged, read, needs)
    return presets


@functools.lru_cache(maxsize=16)
def _read(
    stamps: tuple[Stamp, ...], packaged: Callable[[], Any], read: Callable[..., Any], needs: str
) -> Mapping[str, Any]:
    presets: dict[str, Any] = {}
    for file, _, _ in stamps:
        if file.stem in packaged():
            raise UserError(f"{file}: {file.stem} is the name of a packaged preset; give the file another name")
        if file.stem in presets:
            raise UserError(f"{file}: there is a {file.stem}.yaml, too; give one of them another name")
        try:
            presets[file.stem] = read(file.stem, read_mapping(file, "preset", needs))
        except PresetError as error:
            raise UserError(f"{file}: {error}") from error
    return {**packaged(), **presets}
