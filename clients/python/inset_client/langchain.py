"""A retriever of LangChain. Needs the extra ``langchain``."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from inset_client import Client


class InsetRetriever(BaseRetriever):
    """Searches a corpus; each hit is a document, its other fields (source, page, figures, …) the metadata."""

    client: Client
    corpus: str
    request: dict[str, Any] = Field({}, description="Further fields of a search: k, preset, filters, version.")

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        reply = self.client.search(self.corpus, **{**self.request, "query": query})
        return [
            Document(
                id=hit["evidence_id"],
                page_content=hit["text"],
                metadata={name: value for name, value in hit.items() if name != "text"} | {"version": reply["version"]},
            )
            for hit in reply["hits"]
        ]
