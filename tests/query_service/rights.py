"""A corpus whose documents have a word of their own in title, text, captions and file name, and requests for what it holds."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.access import apply_rights
from pipeline.run import refresh
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.access import Principals
from schemas.reports import ListPart
from schemas.rights import Rights
from tests.manuals import write_manual

ABSENT_DIGEST = "ab" * 32
ABSENT_ROW = "00000000-0000-5000-8000-000000000000"
PARTS = ListPart(0, 10_000)


@dataclass(frozen=True)
class Content:
    """What a document has: ids, and bytes of its files."""

    doc_id: str
    word: str
    source: str
    figures: frozenset[str]
    rows: tuple[str, ...]
    pdf: bytes


@dataclass
class Library:
    """A corpus with rights in a folder; ``engine`` is YAML of the corpus file."""

    folder: Path
    engine: str = ""
    versions: list[str] = field(default_factory=list)
    contents: dict[str, Content] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "library.yaml"

    def publish(self, seeds_by_word: Mapping[str, int], readers: Mapping[str, Principals] | None = None) -> None:
        """Publish a version of a manual a word; manuals of one seed share their figures. ``readers`` are those of its rows."""
        for old in (self.folder / "pdfs").glob("*.pdf"):
            old.unlink()
        for word, seed in seeds_by_word.items():
            write_manual(self.folder / "pdfs" / f"{word}.pdf", word, seed=seed)
        lines = [f"{word}.pdf,{';'.join(sorted(names))}" for word, names in (readers or {}).items()]
        (self.folder / "access.csv").write_text("\n".join(["source,principals", "*,everyone", *lines, ""]))
        (self.folder / "fields.csv").write_text(
            "\n".join(["source,label", *(f"{word}.pdf,{word}" for word in seeds_by_word), ""])
        )
        options = (
            "captions: {ocr: none}\nparse: {layout: never, workers: 1}\ntags: {pdf: true}\naccess: {table: access.csv}\n"
            "fields: {label: {facet: true}}\nmetadata: {table: fields.csv}\n"
        )
        self.file.write_text(f"name: library\nsource: pdfs\nstore: store\n{options}{self.engine}")
        workspace = open_workspace(str(self.file))
        assert refresh(workspace).published
        corpus = PublishedCorpus(workspace)
        with corpus.opened() as opened:
            self.versions.append(opened.version)
            placed = opened.tagged_figures.select(["doc_id", "figure_id"]).to_pylist()
            for doc_id, sources in opened.sources.items():
                rows = tuple(row.evidence_id for row in opened.contents.rows(PARTS, doc_id).items)
                figures = frozenset(row["figure_id"] for row in placed if row["doc_id"] == doc_id)
                word = Path(sources[0]).stem
                self.contents[doc_id] = Content(doc_id, word, sources[0], figures, rows, opened.document(doc_id)[0])
        corpus.close()

    def apply(self, rights: Mapping[str, Principals]) -> None:
        """Make rights by document id the current ones."""
        apply_rights(open_workspace(str(self.file)).store, lambda _: Rights(rights))

    def service(self, callers: Mapping[str, Principals | None]) -> FastAPI:
        """Return a service with a key for each caller: one whose principals are None sees every document."""
        lines = []
        for name, principals in callers.items():
            key = new_key()
            self.keys[name] = key
            allowed_principals = ("*",) if principals is None else tuple(sorted(principals))
            lines.append(key_line(Key(name=name, sha256=digest(key), corpora=("*",), principals=allowed_principals)))
        (self.folder / "keys.jsonl").write_text("\n".join(lines) + "\n")
        corpus = PublishedCorpus(open_workspace(str(self.file)))
        return create_app({"library": corpus}, access=Access(KeyFile(self.folder / "keys.jsonl")), close=corpus.close)


@dataclass(frozen=True)
class Sent:
    """A request of the HTTP API."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: Any = None

    def by(self, client: TestClient, key: str) -> Any:
        """Send it; tools of agents answer by the protocol at /mcp."""
        headers = {"x-api-key": key} | ({"accept": "application/json, text/event-stream"} if self.path == "/mcp" else {})
        return client.request(self.method, self.path, params=self.params, json=self.body, headers=headers)

    @property
    def text(self) -> str:
        """All that it says itself, which a response may repeat."""
        return json.dumps([self.path, self.params, self.body]).lower()


OPERATIONS = [
    (method.upper(), path, [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"])
    for path, operations in create_app({}).openapi()["paths"].items()
    for method, operation in operations.items()
]


class Asker:
    """Makes random requests for what a library has and hasn't."""

    def __init__(self, library: Library, seed: int) -> None:
        self._library, self._random = library, random.Random(seed)
        self.cursors: list[str] = []

    def _content(self) -> Content:
        return self._random.choice([*self._library.contents.values()])

    def _maybe(self, *choices: Any) -> Any:
        return self._random.choice([None, *choices])

    def _word(self) -> str:
        word = self._content().word
        # A letter less, as misspelt words have, is put right by words of passages.
        return self._random.choice(
            [word, word[:-1], f"the {word} manual", "pump valve", "screws of side 2", "What is shown?"]
        )

    def _figure(self) -> str:
        return self._random.choice([*self._content().figures, ABSENT_DIGEST])

    def _filters(self) -> dict[str, Any]:
        content = self._content()
        return self._random.choice(
            [
                {},
                {},
                {"documents": [content.doc_id]},
                {"documents": [content.source]},
                {"sources": [f"{content.word[:3]}*"]},
                {"evidence_ids": [*content.rows][:50]},
                {"phrases": [content.word]},
                {"modalities": ["figure"]},
                {"page_ranges": [{"first": 2}]},
                {"has_figure": True, "languages": ["en"]},
                {"where": {"label": [content.word, "other"]}},
                {"sections": [f"1 Service of the {content.word}, part 1"]},
            ]
        )

    def _search(self) -> dict[str, Any]:
        return {
            "query": self._word(),
            "k": self._random.choice([3, 20, 100]),
            "preset": self._maybe("dense", "bm25", "hybrid", "diverse"),
            "filters": self._filters(),
            "version": self._maybe(*self._library.versions),
            "group": self._maybe("page", "document"),
            "highlight": self._maybe(True, False),
            "trace": self._random.random() < 0.3,
        }

    def _answer(self) -> dict[str, Any]:
        turn = {"question": f"What is the {self._word()}?", "evidence_ids": [*self._content().rows][:3]}
        return {
            "question": self._random.choice([f"How many screws has the {self._word()}?", "What about its screws?"]),
            "filters": self._filters(),
            "version": self._maybe(*self._library.versions),
            "history": self._random.choice([[], [turn]]),
            "stream": self._random.random() < 0.3,
            "trace": self._random.random() < 0.3,
        }

    def _feedback(self) -> dict[str, Any]:
        content = self._content()
        return {
            "question": self._word(),
            "helpful": False,
            "evidence_ids": self._random.choice([[], [*content.rows][:3], [ABSENT_ROW]]),
            "figure_ids": self._random.choice([[], [self._figure()]]),
        }

    def _webhook(self) -> dict[str, Any]:
        return {"url": "https://10.0.0.7/", "event": "question_changed", "question": self._word()}

    def requests(self) -> Iterator[Sent]:
        """Yield requests without end: of every route, page and tool in turn, with random parameters."""
        while True:
            for method, path, query in OPERATIONS:
                yield self.sent(method, path, query)
            yield Sent("GET", self._random.choice(["/", "/api", "/static/app.js", "/static/filters.js"]))
            yield self._tool()

    def sent(self, method: str, path: str, query: Sequence[str]) -> Sent:
        """Return a request of a route with random parameters."""
        content = self._content()
        placed = {
            "corpus": "library",
            "doc_id": self._random.choice([content.doc_id, content.doc_id, ABSENT_DIGEST]),
            "figure_id": self._figure(),
            "evidence_id": self._random.choice([*content.rows, ABSENT_ROW]),
            "page": self._random.choice([1, 2, 9]),
            "webhook_id": "1a2b3c4d5e6f7a8b",
        }
        chosen = {
            "version": self._maybe(*self._library.versions),
            "source": self._random.choice([content.source, f"{content.word[:3]}*", "*"]),
            "contains": self._maybe(content.word, "manual"),
            "cursor": self._maybe(*self.cursors[-20:]),
            "limit": self._maybe(1, 3),
            "sort": self._maybe("-title", "rows"),
            "page": self._maybe(1, 2),
            "dpi": 36,
            "format": self._maybe("csv"),
            "k": 20,
            "around": 2,
        }
        params = tuple((name, str(chosen[name])) for name in query if chosen.get(name) is not None)
        body = None
        if method == "POST":
            bodies = {"search": self._search, "answer": self._answer, "feedback": self._feedback, "webhooks": self._webhook}
            body = bodies[path.rpartition("/")[2]]()
            if "{corpus}" not in path:
                body |= {"version": None, "corpora": self._maybe(["library"])}
        return Sent(method, path.format(**placed), params, body)

    def _tool(self) -> Sent:
        content, corpus = self._content(), {"corpus": self._random.choice(["library", "library", "*"])}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_corpora", {}),
            ("search", {**corpus, "query": self._word()}),
            ("answer", {**corpus, "question": f"What is the {self._word()}?"}),
            ("open_page", {**corpus, "doc_id": content.doc_id, "page": 1, "dpi": 40}),
            ("open_figure", {**corpus, "figure_id": self._figure()}),
        ]
        name, arguments = self._random.choice(calls)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        return Sent("POST", "/mcp", (), call)
