"""Files of models: in a folder, in a package, or on the Hugging Face hub and in its local cache."""

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.errors import ContractError, TransientError, UserError
from schemas.models import ModelName


def model_file(model_name: ModelName, file: str) -> Path:
    """Return one file of a model, downloaded if necessary.

    Raises:
        UserError: The model has no such file; or the cache lacks it, and the hub is disabled.
        TransientError: The hub can't be reached and the file is not in its local cache.
    """
    if Path(model_name.name).is_dir():
        if (local_file := Path(model_name.name, file)).is_file():
            return local_file
        raise UserError(f"{model_name.option}: the folder {model_name.name} has no {file}")
    from huggingface_hub import hf_hub_download

    with _asking_hub(model_name, f"{file} of {model_name.name}"):
        return Path(hf_hub_download(model_name.name, file, revision=model_name.revision))


def model_folder(model_name: ModelName, files: Sequence[str]) -> Path:
    """Return the folder of a model's files that match some patterns, downloaded if necessary; errors as for ``model_file``."""
    if Path(model_name.name).is_dir():
        return Path(model_name.name)
    from huggingface_hub import snapshot_download

    with _asking_hub(model_name, model_name.name):
        return Path(snapshot_download(model_name.name, revision=model_name.revision, allow_patterns=list(files)))


@contextmanager
def _asking_hub(model_name: ModelName, noun: str) -> Iterator[None]:
    """Translate errors of the hub; ``noun`` is what it is asked for."""
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    name = f"{model_name.name} at revision {model_name.revision}"
    try:
        yield
    except LocalEntryNotFoundError as error:
        why = "the hub is not asked (HF_HUB_OFFLINE)" if HF_HUB_OFFLINE else "the hub does not answer"
        kind = UserError if HF_HUB_OFFLINE else TransientError
        raise kind(
            f"{model_name.option}: {name} is not on this machine, and {why}. Name the folder that it lies in; or, where there "
            f"is a network: hf download {model_name.name} --revision {model_name.revision}, and bring the cache that this "
            "fills (HF_HOME) here"
        ) from error
    except (HfHubHTTPError, HFValidationError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{model_name.option}: no {noun} at revision {model_name.revision}: {reason}") from error


def model_json(model_name: ModelName, file: str) -> Any:
    """Return the content of a JSON file; errors as for ``model_file``, and ``UserError`` for invalid JSON."""
    path = model_file(model_name, file)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{model_name.option}: {path} isn't JSON: {error}") from error


def model_files(name: str, revision: str, config_key: str) -> Path:
    """Return the folder of a generative model; nothing is downloaded: ``UserError`` if it isn't on this machine."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError) as error:
        raise UserError(
            f"{config_key}: {name!r} at revision {revision!r} is not on this machine; bring it into the hub's cache with "
            f"'hf download {name} --revision {revision}', or name the folder that it lies in"
        ) from error


@contextmanager
def loading(model_name: ModelName, engine: str) -> Iterator[None]:
    """Turn any error of an engine that loads a model into a ``UserError``."""
    try:
        yield
    except Exception as error:
        cause = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{model_name.option}: {engine} can't load {model_name.name}: {cause}") from error


def packaged_file(package: str, name: str, sha256: str, setting: str) -> Path:
    """Return a file of an installed package with a pinned digest; ``setting`` is the setting that needs it.

    Raises:
        UserError: The package is not installed.
        ContractError: The file is not the pinned one.
    """
    package_spec = importlib.util.find_spec(package)
    if package_spec is None or package_spec.origin is None:
        raise UserError(needs_extra(setting))
    file = Path(package_spec.origin).parent / name
    verify_sha256(file, sha256, package)
    return file


def needs_extra(noun: str, extra: str = "models") -> str:
    """Return the message if the packages of a model or setting are not installed."""
    return f"{noun} needs the extra: pip install -e '.[{extra}]', or make {'setup' if extra == 'torch' else 'install'}"


def check_extra(noun: str, extra: str, *packages: str) -> None:
    """Raise ``UserError`` if one of the packages of an extra is not installed; nothing is imported."""
    if any(importlib.util.find_spec(package) is None for package in packages):
        raise UserError(needs_extra(noun, extra))


def verify_sha256(file: Path, sha256: str, package: str) -> None:
    """Raise ``ContractError`` if a model file is missing or not the pinned one; ``package`` is the one to reinstall."""
    actual_sha256 = "no file"
    if file.is_file():
        with file.open("rb") as stream:
            actual_sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual_sha256 != sha256:
        raise ContractError(f"{file} has SHA-256 {actual_sha256[:12]}, pinned is {sha256[:12]}; reinstall {package}")
