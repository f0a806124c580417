"""Files of a configured model: in a folder, or on the Hugging Face hub and in its local cache."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import TransientError, UserError
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
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(model_name.name, file, revision=model_name.revision))
    except LocalEntryNotFoundError as error:
        raise _not_downloaded(model_name) from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(
            f"{model_name.option}: no {file} of {model_name.name} at revision {model_name.revision}: {_first_line(error)}"
        ) from error


def model_folder(model_name: ModelName, files: Sequence[str]) -> Path:
    """Return the folder of a model's files that match some patterns, downloaded if necessary.

    Raises:
        UserError: There is no such model; or the cache lacks it, and the hub is disabled.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """
    if Path(model_name.name).is_dir():
        return Path(model_name.name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model_name.name, revision=model_name.revision, allow_patterns=list(files)))
    except LocalEntryNotFoundError as error:
        raise _not_downloaded(model_name) from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(
            f"{model_name.option}: no {model_name.name} at revision {model_name.revision}: {_first_line(error)}"
        ) from error


def model_json(model_name: ModelName, file: str) -> Any:
    """Return the content of a JSON file; errors as for ``model_file``, and ``UserError`` for invalid JSON."""
    path = model_file(model_name, file)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{model_name.option}: {path} isn't JSON: {error}") from error


def _not_downloaded(model_name: ModelName) -> UserError | TransientError:
    from huggingface_hub.constants import HF_HUB_OFFLINE

    why = "the hub is not asked (HF_HUB_OFFLINE)" if HF_HUB_OFFLINE else "the hub does not answer"
    kind = UserError if HF_HUB_OFFLINE else TransientError
    return kind(
        f"{model_name.option}: {model_name.name} at revision {model_name.revision} is not on this machine, and {why}. Name the "
        f"folder that it lies in; or, where there is a network: hf download {model_name.name} --revision "
        f"{model_name.revision}, and bring the cache that this fills (HF_HOME) here"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def model_files(name: str, revision: str, config_key: str) -> Path:
    """Return the folder of a generative model; nothing is downloaded.

    Raises:
        UserError: It isn't on this machine.
    """
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
