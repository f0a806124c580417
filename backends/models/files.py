"""Files of a configured model: in a folder, or on the Hugging Face hub and in its local cache."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import TransientError, UserError
from schemas.models import ModelName


def model_file(named: ModelName, file: str) -> Path:
    """Return one file of a model, downloaded if necessary.

    Raises:
        UserError: The model has no such file; or the cache lacks it, and the hub is disabled.
        TransientError: The hub can't be reached and the file is not in its local cache.
    """
    if Path(named.name).is_dir():
        if (found := Path(named.name, file)).is_file():
            return found
        raise UserError(f"{named.option}: the folder {named.name} has no {file}")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(named.name, file, revision=named.revision))
    except LocalEntryNotFoundError as error:
        raise _absent(named) from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(
            f"{named.option}: no {file} of {named.name} at revision {named.revision}: {_first_line(error)}"
        ) from error


def model_folder(named: ModelName, files: Sequence[str]) -> Path:
    """Return the folder of a model's files that match some patterns, downloaded if necessary.

    Raises:
        UserError: There is no such model; or the cache lacks it, and the hub is disabled.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """
    if Path(named.name).is_dir():
        return Path(named.name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(named.name, revision=named.revision, allow_patterns=list(files)))
    except LocalEntryNotFoundError as error:
        raise _absent(named) from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(f"{named.option}: no {named.name} at revision {named.revision}: {_first_line(error)}") from error


def model_json(named: ModelName, file: str) -> Any:
    """Return the content of a JSON file; errors as for ``model_file``, and ``UserError`` for invalid JSON."""
    path = model_file(named, file)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{named.option}: {path} is no JSON: {error}") from error


def _absent(named: ModelName) -> UserError | TransientError:
    from huggingface_hub.constants import HF_HUB_OFFLINE

    why = "the hub is not asked (HF_HUB_OFFLINE)" if HF_HUB_OFFLINE else "the hub does not answer"
    kind = UserError if HF_HUB_OFFLINE else TransientError
    return kind(
        f"{named.option}: {named.name} at revision {named.revision} is not on this machine, and {why}. Name the folder that it "
        f"lies in; or, where there is a network: hf download {named.name} --revision {named.revision}, and bring the cache that "
        f"this fills (HF_HOME) here"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def model_files(name: str, revision: str, where: str) -> Path:
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
            f"{where}: {name!r} at revision {revision!r} is not on this machine; bring it into the hub's cache with "
            f"'hf download {name} --revision {revision}', or name the folder that it lies in"
        ) from error
