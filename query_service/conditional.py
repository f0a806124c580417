"""Conditional and partial responses (RFC 9110, sections 13 and 14) for files that are held in memory."""

import hashlib
import re
from collections.abc import Mapping

from fastapi import Request, Response

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
"""One range; longer numbers are ignored, since int() takes no thousands of digits."""


def file_response(
    request: Request, body: bytes, media_type: str, headers: Mapping[str, str], *, ranges: bool = False
) -> Response:
    """Return a file with an ETag: 304 where the client has it already, 206 for a part of it.

    Args:
        request: The client's request.
        body: The whole file.
        media_type: Its media type.
        headers: Further headers.
        ranges: Whether the client may ask for a part; several parts at once get the whole file.
    """
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    response_headers = {**headers, "etag": etag, **({"accept-ranges": "bytes"} if ranges else {})}
    cached_tags = request.headers.get("if-none-match")
    if cached_tags is not None and any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in cached_tags.split(",")):
        return Response(status_code=304, headers=response_headers)
    part = _RANGE.fullmatch(request.headers.get("range", "").strip()) if ranges else None
    if part is None or part[0] == "bytes=-" or request.headers.get("if-range", etag) != etag:
        return Response(body, media_type=media_type, headers=response_headers)
    size = len(body)
    if part[1]:
        first, last = int(part[1]), min(int(part[2] or size), size - 1)
        if part[2] and int(part[2]) < first:  # no range at all
            return Response(body, media_type=media_type, headers=response_headers)
    else:
        first, last = max(size - int(part[2]), 0), size - 1
    if first > last:
        return Response(status_code=416, headers={**response_headers, "content-range": f"bytes */{size}"})
    response_headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(body[first : last + 1], 206, media_type=media_type, headers=response_headers)
