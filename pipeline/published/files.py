"""The files of a published corpus: figures, pages as pictures, documents and their tagged copies."""

from collections.abc import Sequence
from concurrent.futures import Future

from pipeline.corpus.workspace import Workspace
from pipeline.published.versions import OpenVersions
from schemas.errors import TransientError, UserError
from schemas.ids import document_file, figure_file
from workers.draw_pages import Drawing, PageDrawer

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in PDF points from the top left."""


class PublishedFiles:
    """Files of one corpus, each only where the version holds it, even if the store has more."""

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
        highlight: Sequence[Box] = (),
        dpi: int = 110,
        version: str | None = None,
    ) -> "Future[bytes]":
        """Return a future of a page as PNG with highlighted boxes; cancel it when nobody waits for it any more.

        The future raises ``BadInputError`` where the page can't be drawn.
        """
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
        """Return the copy of a PDF with a tag at each figure, and its file name."""
        with self._versions.opened(version) as opened:
            name = opened.tagged_name(doc_id)
            stem = opened.require(doc_id)[0].rpartition("/")[2].removesuffix(".pdf")
            return self._stored(name), f"{stem}.tagged.pdf"

    def _stored(self, name: str) -> bytes:
        try:
            return self._workspace.store.get(name)
        except FileNotFoundError as error:
            corpus = self._workspace.corpus.name
            remedy = f"inset doctor {corpus} --deep, then inset refresh {corpus}"
            message = f"corpus {corpus}: the store has lost {name}; to have it made again: {remedy}"
            raise TransientError(message) from error

    def _passwords(self) -> tuple[str, ...]:
        try:
            return tuple(self._workspace.passwords())
        except UserError:  # not set here: pages of encrypted documents then report it
            return ()
