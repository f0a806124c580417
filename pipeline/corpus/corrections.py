"""Read the corrections file of a corpus."""

from pathlib import Path

from backends.stores.s3_store import read_object, s3_client, s3_errors
from schemas.errors import UserError
from schemas.tags import TagTemplate
from tasks.enriching.corrections import Corrections, CorrectionsError, parse_corrections

_MOST_BYTES = 16 << 20
_FORMS = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


def read_corrections(address: str, template: TagTemplate) -> Corrections:
    """Read descriptions written by people.

    ``address`` is an absolute path or ``s3://bucket/key``.

    Raises:
        UserError: The file can't be read, or holds mistakes: one a line.
        TransientError: Its bucket can't be reached.
    """
    form = _FORMS.get(Path(address).suffix.lower())
    if form is None:
        raise UserError(f"captions.corrections: {address} ends neither in .yaml nor in .csv, so its format isn't known")
    try:
        text = _read(address).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{address}: its bytes are not UTF-8; save the file as UTF-8") from error
    try:
        return parse_corrections(text, "csv" if form == "csv" else "yaml", template)
    except CorrectionsError as error:
        raise UserError(*(f"{address}: {mistake}" for mistake in error.args)) from error


def _read(address: str) -> bytes:
    try:
        data = _read_object(address) if address.startswith("s3://") else _read_file(Path(address))
    except FileNotFoundError as error:
        raise UserError(f"captions.corrections: there is no file {address}") from error
    except OSError as error:
        raise UserError(f"captions.corrections: {address} can't be read: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise UserError(f"captions.corrections: {address} has more than {_MOST_BYTES >> 20} MiB")
    return data


def _read_file(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise UserError(f"captions.corrections: {path} is not a file")
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def _read_object(address: str) -> bytes:
    bucket, _, name = address.removeprefix("s3://").partition("/")
    with s3_errors(f"s3://{bucket}", name):
        return read_object(s3_client(), bucket, name)[0]
