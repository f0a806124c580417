"""Webhooks: routes that make them, and the sender, which tells each address of a version that is live.

Requests are signed as Standard Webhooks has it: https://www.standardwebhooks.com. Nothing of a secret is stored: that of a
webhook follows from the service's own and the webhook's id.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import ipaddress
import logging
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import httpx
import tenacity
from fastapi import APIRouter, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from pipeline.published import readers
from pipeline.published.corpus import PublishedCorpus
from pipeline.published.webhooks import (
    answer_pages,
    change_webhook,
    event_of,
    read_webhooks,
    remove_webhook,
    store_webhook,
)
from query_service.access import Access, Caller, Network, caller_of
from query_service.errors import one_line
from query_service.requests import A_VERSION, ERRORS, Corpus, Question, example
from schemas.errors import InsetError, NotFoundError, RequestError
from schemas.filters import Glob
from schemas.webhooks import Event, StoredWebhook

SECRET = "INSET_WEBHOOK_SECRET"
LOOKED_EVERY_S = 15.0
"""Seconds between two looks at the live versions."""
MOST_WEBHOOKS = 1_000
"""Webhooks of a corpus: each saved question is asked of every version."""

_SENT_WITHIN_S = 10.0
_TRIES = 3
_CLAIM = timedelta(minutes=5)
"""Time in which one process sends an event, its tries included; then another one may."""
_LONGEST_WAIT = timedelta(hours=6)
_SENT_AT_ONCE = 8

_logger = logging.getLogger("inset.query_service")
router = APIRouter(prefix="/v1/corpora/{corpus}/webhooks", responses=ERRORS, tags=["webhooks"])


class WebhookRequest(BaseModel):
    """Of what to tell whom."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://hooks.example.org/inset", "event": "version_live"}]},
    )

    url: str = Field(pattern=r"^https?://", max_length=2000, description="Where to send it, by POST.")
    event: Event
    documents: Glob = Field("**", description="document_changed: a glob of their sources.")
    question: Question | None = Field(None, description="question_changed: the saved question.")

    @model_validator(mode="after")
    def _has_question(self) -> "WebhookRequest":
        if (self.event == "question_changed") != (self.question is not None):
            raise ValueError("question_changed needs a question, and other events have none")
        return self


class WebhookState(BaseModel):
    """A webhook, and whether its address answers."""

    id: str
    url: str
    event: Event
    documents: str
    question: str
    version: str = Field(description="The version of which the address was told last.")
    problem: str = Field(description="Why the address hasn't answered; empty if it has.")
    given_up: bool = Field(description="It hasn't for days: nothing is sent any more. Delete it and make a new one.")


class WebhookMade(WebhookState):
    """A new webhook."""

    secret: str = Field(description="Checks the signature of requests; shown this once.")


_EXAMPLE = {
    "id": "1a2b3c4d5e6f7a8b",
    "url": "https://hooks.example.org/inset",
    "event": "version_live",
    "documents": "**",
    "question": "",
    "version": A_VERSION,
    "problem": "",
    "given_up": False,
    "secret": "whsec_c2VjcmV0",
}
_WebhookId = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{16}$", examples=["1a2b3c4d5e6f7a8b"])]


@router.post("", status_code=201, responses={201: example(_EXAMPLE)[200]})
def add_webhook(request: Request, corpus: Corpus, body: WebhookRequest) -> WebhookMade:
    """Have an address told of a new version, of documents that change, or of another answer to a saved question.

    It is told what the key may see. 403: without a key, or where the service has no webhooks. 422: an address that may not be
    sent to. Requests have webhook-id, webhook-timestamp and webhook-signature, as Standard Webhooks has it.
    """
    with corpus.opened() as opened:
        store, version = opened.workspace.store, opened.version
    sender, owner = _sender(request), _owner(request)
    sender.check(body.url)
    if len(read_webhooks(store)) >= MOST_WEBHOOKS:
        raise HTTPException(429, f"a corpus has {MOST_WEBHOOKS} webhooks at most")
    fields = body.model_dump(exclude_none=True) | {
        "pages": answer_pages(corpus, body.question, version) if body.question else []
    }
    webhook = StoredWebhook(id=secrets.token_hex(8), owner=owner, version=version, not_before=datetime.now(UTC), **fields)
    store_webhook(store, webhook)
    return WebhookMade(**_state(webhook).model_dump(), secret=sender.secret_of(webhook))


@router.get("")
def webhooks(request: Request, corpus: Corpus) -> list[WebhookState]:
    """The caller's own webhooks."""
    return [_state(webhook) for webhook in _own(request, corpus)]


@router.delete("/{webhook_id}", status_code=204)
def delete_webhook(request: Request, corpus: Corpus, webhook_id: _WebhookId) -> None:
    """Delete one of the caller's own webhooks."""
    if webhook_id not in [webhook.id for webhook in _own(request, corpus)]:
        raise NotFoundError(f"there is no webhook {webhook_id}")
    with corpus.opened() as opened:
        remove_webhook(opened.workspace.store, webhook_id)


def _sender(request: Request) -> "Webhooks":
    sender = cast(Webhooks, request.app.state.webhooks)
    if not sender.are_on:
        raise HTTPException(403, f"this service sends no webhooks: its operator sets a secret, {SECRET}")
    return sender


def _owner(request: Request) -> str | None:
    """Return the key that asks. Rights of people are known while they ask, those of a key at any time."""
    access, caller = cast(Access, request.app.state.access), caller_of(request.scope)
    if caller.key is None and not access.is_open:
        raise HTTPException(403, "a webhook needs a key, since it is sent while nobody asks")
    key_caller = access.caller_named(caller.key.name if caller.key else None)
    if key_caller is None or key_caller.principals != caller.principals:
        raise HTTPException(403, "send the key alone: a webhook sees what its key sees")
    return key_caller.name


def _own(request: Request, corpus: PublishedCorpus) -> list[StoredWebhook]:
    owner = _owner(request)
    with corpus.opened() as opened:
        return [webhook for webhook in read_webhooks(opened.workspace.store) if webhook.owner == owner]


def _state(webhook: StoredWebhook) -> WebhookState:
    return WebhookState(
        **webhook.model_dump(include={*WebhookState.model_fields}), given_up=webhook.is_given_up(datetime.now(UTC))
    )


class Webhooks:
    """Tells addresses of what changed, in this process or another one, at least once.

    A webhook remembers the version of which its address was told, so that nothing is lost while no service runs.
    ``networks`` are private ones that may be sent to; without a ``secret`` there are no webhooks.
    """

    def __init__(
        self,
        corpora: Mapping[str, PublishedCorpus],
        access: Access,
        secret: str | None,
        networks: Sequence[Network] = (),
    ) -> None:
        self._corpora, self._access, self._networks = corpora, access, networks
        self._secret = (secret or "").encode()

    @property
    def are_on(self) -> bool:
        """Whether the service sends webhooks."""
        return bool(self._secret)

    def secret_of(self, webhook: StoredWebhook) -> str:
        """Return the secret with which requests of a webhook are signed."""
        return f"whsec_{base64.b64encode(self._key_of(webhook)).decode()}"

    async def send_on(self) -> None:
        """Send what is due from time to time, until cancelled."""
        while self.are_on:
            await asyncio.sleep(LOOKED_EVERY_S)
            await asyncio.to_thread(self.send)

    def send(self) -> None:
        """Tell every address of the version that is live now, unless it knows."""
        with ThreadPoolExecutor(_SENT_AT_ONCE) as pool:
            for corpus in self._corpora.values():
                with contextlib.suppress(InsetError):  # the next look may find it
                    pointer = corpus.live()
                    # Rights that were read before a version went live don't know its new documents.
                    if pointer is None or datetime.now(UTC) - pointer.since < timedelta(seconds=readers.RIGHTS_S):
                        continue
                    with corpus.opened(pointer) as opened:
                        store = opened.workspace.store
                    for webhook in read_webhooks(store):
                        if webhook.is_due(pointer.version, datetime.now(UTC)):
                            pool.submit(self._tell, corpus, store, webhook, pointer.version)

    def check(self, url: str) -> str:
        """Return the address of a machine to which a URL may be sent, or raise ``RequestError``."""
        try:
            parts = httpx.URL(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            resolved = socket.getaddrinfo(parts.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, httpx.InvalidURL) as error:
            raise RequestError(f"{one_line(url)}: there is no such host") from error
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in resolved]
        for address in addresses:
            is_allowed = any(address in network for network in self._networks)
            # Private networks alone may be sent to in the clear, and only where the operator names them.
            if not is_allowed and not (address.is_global and not address.is_multicast and parts.scheme == "https"):
                raise RequestError(
                    f"{parts.host} may not be sent to: write an https:// address of the internet; private networks are for "
                    "the operator to allow (inset serve --webhooks-to NETWORK)"
                )
        return str(addresses[0])

    def _key_of(self, webhook: StoredWebhook) -> bytes:
        return hmac.digest(self._secret, webhook.id.encode(), "sha256")

    def _tell(self, corpus: PublishedCorpus, store: Any, webhook: StoredWebhook, version: str) -> None:
        now = datetime.now(UTC)

        def claim(current: StoredWebhook) -> StoredWebhook | None:
            return current.model_copy(update={"not_before": now + _CLAIM}) if current.is_due(version, now) else None

        claimed = change_webhook(store, webhook.id, claim)
        if claimed is None:
            return
        try:
            event = event_of(self._as_seen(corpus, claimed), claimed, version)
            if event is not None:
                self._post(claimed, event.model_dump_json(exclude_defaults=True).encode(), version)
            update: dict[str, Any] = {"version": version, "not_before": now, "failing_since": None, "problem": ""}
            if event is not None:
                update["pages"] = event.pages
        except Exception as error:  # noqa: BLE001  whatever fails, it is said, and tried again
            problem = one_line(error.message if isinstance(error, InsetError) else f"{type(error).__name__}: {error}")
            silent = now - (claimed.failing_since or now)
            update = {"failing_since": claimed.failing_since or now, "problem": problem}
            update["not_before"] = now + min(max(silent, _CLAIM), _LONGEST_WAIT)
            _logger.warning("webhook %s of corpus %s: %s", claimed.id, corpus.name, problem)
        change_webhook(store, claimed.id, lambda current: current.model_copy(update=update))

    def _as_seen(self, corpus: PublishedCorpus, webhook: StoredWebhook) -> PublishedCorpus:
        """Return the corpus as the webhook's key sees it now; nothing of it if the key is gone."""
        caller: Caller | None = self._access.caller_named(webhook.owner)
        if caller is None or not caller.sees(corpus.name):
            raise RequestError("its key is gone, has expired, or may not see the corpus any more")
        return corpus.for_reader(caller.principals)

    def _post(self, webhook: StoredWebhook, body: bytes, version: str) -> None:
        """Send a signed body; raise ``httpx.HTTPError`` where no try was answered with success."""
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(httpx.HTTPError),
            stop=tenacity.stop_after_attempt(_TRIES),
            wait=tenacity.wait_exponential_jitter(initial=1, max=20),
            reraise=True,
        )
        url, event_id = httpx.URL(webhook.url), f"{webhook.id}-{version}"
        # The address that was checked is the one that is sent to: a name may resolve otherwise a moment later.
        target = url.copy_with(host=self.check(webhook.url))
        with httpx.Client(timeout=_SENT_WITHIN_S, trust_env=False) as client:

            def post() -> None:
                sent_at = str(int(time.time()))
                signature = hmac.digest(self._key_of(webhook), f"{event_id}.{sent_at}.".encode() + body, hashlib.sha256)
                headers = {
                    "host": url.netloc.decode(),
                    "content-type": "application/json",
                    "webhook-id": event_id,
                    "webhook-timestamp": sent_at,
                    "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
                }
                names = {"sni_hostname": url.host}
                with client.stream("POST", target, content=body, headers=headers, extensions=names) as response:
                    if not response.is_success:  # redirects aren't followed
                        response.raise_for_status()

            tries(post)
