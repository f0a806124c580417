"""The files of a published corpus: figures, pages as pictures, documents and their tagged copies."""

from collections.abc import Sequence
from concurrent.futures import Future

from pipeline.corpus.workspace import Workspace
from pipeline.published.versions import OpenVersions
from schemas.errors import TransientError, UserError
from schemas.ids import document_file, figure_file
from workers.draw_pages import Drawing, PageDrawer


class PublishedFiles:
    """What readers open: each file only where the version that they read holds it, whatever the store still has."""

    def __init__(self, workspace: Workspace, versions: OpenVersions, drawer: PageDrawer) -> None:
        self._workspace, self._versions, self._drawer = workspace, versions, drawer

    def figure(self, figure_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return a figure's bytes and their media type."""
        with self._versions.opened(version) as opened:
            opened.require_figure(figure_id)
            return self._stored(figure_file(figure_id)), "image/png"

    def page_image(
        self,
        doc_id: str,
        page: int,
        *,
        highlight: Sequence[tuple[float, float, float, float]] = (),
        dpi: int = 110,
        version: str | None = None,
    ) -> "Future[bytes]":
        """Return what will be a page as PNG, the given boxes highlighted; cancel it where the caller goes."""
        with self._versions.opened(version) as opened:
            opened.require(doc_id)
            store = self._workspace.store.root
            drawing = Drawing(store, document_file(doc_id), page, dpi, tuple(highlight), passwords=self._passwords())
            return self._drawer.draw(drawing)

    def document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the original PDF and its file name."""
        with self._versions.opened(version) as opened:
            source = opened.require(doc_id)[0]
            return self._stored(document_file(doc_id)), source.rpartition("/")[2]

    def tagged_document(self, doc_id: str, *, version: str | None = None) -> tuple[bytes, str]:
        """Return the copy of a PDF in which every figure's tag is written at its place, and its file name."""
        with self._versions.opened(version) as opened:
            name = opened.tagged_name(doc_id)
            stem = opened.require(doc_id)[0].rpartition("/")[2].removesuffix(".pdf")
            return self._stored(name), f"{stem}.tagged.pdf"

    def _stored(self, name: str) -> bytes:
        """Return an object that the opened version names."""
        try:
            return self._workspace.store.get(name)
        except FileNotFoundError as error:
            corpus = self._workspace.corpus.name
            message = f"corpus {corpus}: the store has lost {name}; to have it made again: inset refresh {corpus}"
            raise TransientError(message) from error

    def _passwords(self) -> tuple[str, ...]:
        try:
            return tuple(self._workspace.passwords())
        except UserError:  # the variable isn't set where this runs: pages of encrypted documents say that they need one
            return ()
