"""A retriever of Haystack. Needs the extra ``haystack``."""

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from inset_client import Client


@component
class InsetRetriever:
    """Searches a corpus; each hit is a document, its other fields (source, page, figures, …) the meta.

    Args:
        url: Address of the service.
        corpus: The corpus's name.
        key: API key; by default that of the environment variable ``INSET_KEY``, if there is one.
        request: Further fields of a search: k, preset, filters, version.
    """

    def __init__(self, url: str, corpus: str, key: Secret | None = None, request: dict[str, Any] | None = None) -> None:
        self.url, self.corpus, self.request = url, corpus, request or {}
        self.key = key or Secret.from_env_var("INSET_KEY", strict=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for a pipeline's file."""
        return default_to_dict(self, url=self.url, corpus=self.corpus, key=self.key.to_dict(), request=self.request)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "InsetRetriever":
        """Return the retriever of these settings."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["key"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None) -> dict[str, list[Document]]:
        """Return the documents; ``top_k`` and ``filters`` override k and filters of ``request``."""
        parameters = {"query": query, "k": top_k, "filters": filters}
        request = {**self.request, **{name: value for name, value in parameters.items() if value is not None}}
        with Client(self.url, self.key.resolve_value()) as client:
            reply = client.search(self.corpus, **request)
        return {
            "documents": [
                Document(
                    id=hit["evidence_id"],
                    content=hit["text"],
                    score=hit["score"],
                    meta={name: value for name, value in hit.items() if name != "text"} | {"version": reply["version"]},
                )
                for hit in reply["hits"]
            ]
        }
