"""The webhooks of a corpus, an object each below ``webhooks/``, and what each tells of a version."""

import re
from collections import defaultdict
from collections.abc import Callable
from fnmatch import translate

from backends.stores.objects import read_mutable, readable_models
from pipeline.published.corpus import PublishedCorpus
from schemas.errors import NotFoundError
from schemas.ports import ObjectStore
from schemas.retrieval import AnswerQuery
from schemas.webhooks import AnswerPage, DocumentChange, StoredWebhook, WebhookEvent

FOLDER = "webhooks"

EXTRACTIVE = "extractive"
"""The answer preset of saved questions: a new version asks all of them, so no model that costs money is called."""


def read_webhooks(store: ObjectStore) -> list[StoredWebhook]:
    """Return a corpus's webhooks, without damaged ones."""
    return [*readable_models(store, sorted(store.names(FOLDER)), StoredWebhook)]


def store_webhook(store: ObjectStore, webhook: StoredWebhook) -> None:
    """Store a new webhook."""
    store.swap(_name(webhook.id), webhook.model_dump_json().encode(), None)


def remove_webhook(store: ObjectStore, webhook_id: str) -> None:
    """Remove a webhook."""
    store.delete(_name(webhook_id))


def change_webhook(
    store: ObjectStore, webhook_id: str, change: Callable[[StoredWebhook], StoredWebhook | None]
) -> StoredWebhook | None:
    """Replace a webhook by what ``change`` makes of it, and return that; None if it is gone, or ``change`` leaves it."""
    name = _name(webhook_id)
    while True:
        current, etag = read_mutable(store, name, StoredWebhook)
        changed = change(current) if current is not None else None
        if changed is None or store.swap(name, changed.model_dump_json().encode(), etag):
            return changed


def forget_in_webhooks(store: ObjectStore, names_any: Callable[[str], bool]) -> None:
    """Remove the pages of answers of which ``names_any`` returns true, and webhooks that still name a deleted document."""
    for webhook in read_webhooks(store):
        if names_any(webhook.model_dump_json()):
            changed = change_webhook(store, webhook.id, lambda current: current.model_copy(update={"pages": []}))
            if changed is not None and names_any(changed.model_dump_json()):
                remove_webhook(store, webhook.id)


def _name(webhook_id: str) -> str:
    return f"{FOLDER}/{webhook_id}.json"


def event_of(corpus: PublishedCorpus, webhook: StoredWebhook, version: str) -> WebhookEvent | None:
    """Return what to tell of a version, as the corpus's reader sees it; None if nothing changed that the webhook is about."""
    event = WebhookEvent(type=webhook.event, corpus=corpus.name, version=version, previous=webhook.version)
    if webhook.event == "document_changed":
        try:
            documents = changed_documents(corpus, webhook.version, version, webhook.documents)
        except NotFoundError:  # the earlier version is removed: say at least that there is another one
            return event
        return event.model_copy(update={"documents": documents}) if documents else None
    if webhook.event == "question_changed":
        pages = answer_pages(corpus, webhook.question, version)
        update = {"question": webhook.question, "pages": pages, "previous_pages": webhook.pages}
        return event.model_copy(update=update) if pages != webhook.pages else None
    return event


def answer_pages(corpus: PublishedCorpus, question: str, version: str) -> list[AnswerPage]:
    """Return the pages that a version's answer cites, in the order of their documents; [] if nothing answers."""
    citations = corpus.answer(AnswerQuery(question=question, answer=EXTRACTIVE, version=version)).citations
    pages = sorted({(citation.source, citation.page) for citation in citations})
    return [AnswerPage(source=source, page=page) for source, page in pages]


def changed_documents(corpus: PublishedCorpus, earlier: str, later: str, glob: str) -> list[DocumentChange]:
    """Return the documents that match a glob and are new, changed or gone; ``NotFoundError`` if a version is removed."""
    before, now = _documents(corpus, earlier, glob), _documents(corpus, later, glob)
    changed = [source for source in sorted(before.keys() | now.keys()) if before.get(source) != now.get(source)]
    return [
        DocumentChange(source=source, change="new" if source not in before else "gone" if source not in now else "changed")
        for source in changed
    ]


def _documents(corpus: PublishedCorpus, version: str, glob: str) -> dict[str, set[str]]:
    """Return the ids of documents by source."""
    matches, doc_ids = re.compile(translate(glob)).match, defaultdict[str, set[str]](set)
    with corpus.opened(version) as opened:
        for doc_id, sources in opened.sources.items():
            for source in filter(matches, sources):
                doc_ids[source].add(doc_id)
    return doc_ids
