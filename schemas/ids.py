"""Names derived from content: digests, keys, evidence ids, version names."""

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import StringConstraints

CORPUS_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

CorpusName = Annotated[str, StringConstraints(pattern=rf"^{CORPUS_NAME.pattern}$")]

FIRST_VERSION = "1"
"""Of any code whose output is filed under a key."""

_EVIDENCE_NAMESPACE = uuid.UUID("6f1d2c1e-54c7-5b0e-9a4e-2b6a1f6f7c11")


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256; a document's id is that of its bytes."""
    return hashlib.sha256(data).hexdigest()


def figure_id(width: int, height: int, rgb: bytes) -> str:
    """Name a figure by its pixels: ``rgb`` has ``width * height * 3`` bytes, row by row, alpha flattened on white."""
    return sha256(f"{width}x{height}:".encode() + rgb)


def key(**parts: Any) -> str:
    """Digest everything an output depends on, as JSON values: inputs, versions, model, options. 16 hexadecimal digits."""
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())[:16]


def raised(**versions: str) -> dict[str, str]:
    """Return the versions above the first, as parts of a key, so that a version added later finds earlier work, perhaps paid."""
    return {name: version for name, version in versions.items() if version != FIRST_VERSION}


def evidence_id(doc_id: str, modality: str, order: int, text: str, *, again: int = 0) -> str:
    """Name a row of the index: equal in every version with the same piece, and unique.

    ``order`` is that of the row's first block, from 0, or of a figure's placement; ``text`` has no tags; ``again`` counts earlier
    rows with all of that in common.
    """
    name = f"{doc_id}/{modality}/{order}/{sha256(text.encode())}"
    return str(uuid.uuid5(_EVIDENCE_NAMESPACE, f"{name}/{again}" if again else name))


MOMENT = "%Y%m%dT%H%M%S.%fZ"
"""The moment, in UTC, that names of objects begin with which are listed by time."""


def version_name(now: datetime, fingerprint: str) -> str:
    """Return ``YYYYMMDDThhmmssZ-<8 hex of the fingerprint>``; ``now`` must be aware."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:8]}"


def version_time(version: str) -> datetime:
    """Return the moment that a version's name begins with."""
    return datetime.strptime(version.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def document_file(doc_id: str) -> str:
    """Name the object that holds a document's bytes."""
    return f"documents/{doc_id}.pdf"


def original_file(doc_id: str) -> str:
    """Name the object that holds the bytes of a document that isn't a PDF."""
    return f"documents/{doc_id}.original"


def converted_file(doc_id: str, converter: str) -> str:
    """Name the object that holds the PDF that a converter, with its release, made of a document."""
    return f"converted/{doc_id}/{converter}.pdf"


def figure_file(figure_id: str) -> str:
    """Name the object that holds a figure's pixels."""
    return f"figures/{figure_id}.png"


def version_file(version: str, name: str) -> str:
    """Name a file of a version."""
    return f"versions/{version}/{name}"


def collection_name(corpus: str, version: str) -> str:
    """Return the name of a version's collection, valid in every engine: ``Manuals_20260101T000000Z_deadbeef``."""
    return f"{corpus.capitalize()}_{version.replace('-', '_')}"


def alias_name(corpus: str) -> str:
    """Return the alias of a corpus's live collection: ``Manuals``."""
    return corpus.capitalize()
