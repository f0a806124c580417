"""Models that ship inside packages, held to pinned digests."""

import hashlib
import importlib.util
from pathlib import Path

from schemas.errors import ContractError, UserError


def packaged_file(package: str, name: str, sha256: str, wanted_by: str) -> Path:
    """Return a file of an installed package.

    Args:
        package: The package.
        name: The file's path inside it.
        sha256: The digest it must have.
        wanted_by: The setting that asks for it, for the error.

    Raises:
        UserError: The package is not installed.
        ContractError: The file is not the pinned one.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise UserError(f"{wanted_by} needs the extra: pip install -e '.[models]', or make install")
    file = Path(found.origin).parent / name
    verify(file, sha256, package)
    return file


def verify(file: Path, sha256: str, package: str) -> None:
    """Hold a model's file to its digest; ``package`` is what must be installed again where it differs.

    Raises:
        ContractError: The file is not there, or not the pinned one.
    """
    found = "no file"
    if file.is_file():
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise ContractError(f"{file} has SHA-256 {found[:12]}, pinned is {sha256[:12]}; reinstall {package}")
