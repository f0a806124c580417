"""Models that ship inside packages, held to pinned digests."""

import hashlib
import importlib.util
from pathlib import Path

from schemas.errors import ContractError, UserError


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


def needs_extra(wanted_by: str) -> str:
    """Return the message if the packages of a setting are not installed."""
    return f"{wanted_by} needs the extra: pip install -e '.[models]', or make install"


def verify_sha256(file: Path, sha256: str, package: str) -> None:
    """Check a model file's digest; ``package`` is the one to reinstall.

    Raises:
        ContractError: The file is missing, or not the pinned one.
    """
    actual_sha256 = "no file"
    if file.is_file():
        with file.open("rb") as stream:
            actual_sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual_sha256 != sha256:
        raise ContractError(f"{file} has SHA-256 {actual_sha256[:12]}, pinned is {sha256[:12]}; reinstall {package}")
