"""The registry of models that a corpus file can name, by kind. To add one: a module beside this one, and a line here.

A module has a function ``model(named)``, which returns an unloaded ``Model``. It is imported on demand.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from schemas.corpus.models import EntryKind, ModelEntry
from schemas.errors import UserError
from schemas.models import DIMENSION, MINILM, MULTILINGUAL, Embeds, Model, ModelName, TextModel

if TYPE_CHECKING:
    from schemas.ports import LanguageModel, PassageScorer
    from schemas.versions import ModelCard

Offered = TypeVar("Offered", bound=Model[Any])


@dataclass(frozen=True)
class ModelKind(Generic[Offered]):
    """Interchangeable models.

    Attributes:
        others: The module of all names but the packaged ones; they need a revision.
        modules: The modules of packaged models, by name.
        served: The module of models behind an endpoint; None for none.
    """

    others: str
    modules: dict[str, str] = field(default_factory=dict)
    served: str | None = None

    def find(self, model_name: ModelName) -> Offered:
        """Return an unloaded model; errors as for ``check``."""
        self.check(model_name)
        offer = cast(Callable[[ModelName], Offered], pkgutil.resolve_name(f"{self._module(model_name)}:model"))
        return offer(model_name)

    def check(self, model_name: ModelName) -> None:
        """Raise ``UserError`` if a model needs a revision, or is packaged and takes none of its settings."""
        self._module(model_name)
        if model_name.name in self.modules and (
            setting_names := " or ".join(name for name, _ in (*model_name.settings, *model_name.query_settings))
        ):
            raise UserError(
                f"{model_name.option}: {model_name.name!r} is packaged with all that it needs and takes no {setting_names}"
            )

    def _module(self, model_name: ModelName) -> str:
        if model_name.name in self.modules:
            return self.modules[model_name.name]
        if self.served is not None and model_name.setting(DIMENSION) is not None:
            return self.served
        if model_name.revision is None:
            raise UserError(
                f"{model_name.option}: {model_name.name!r} needs a revision, so that the same name always means the same model; "
                f"without one: {', '.join(self.modules)}"
            )
        return self.others


TEXT_EMBEDDERS: ModelKind[TextModel] = ModelKind(
    "backends.models.sentence_transformer",
    {
        MINILM: "backends.models.minilm",
        MULTILINGUAL: "backends.models.multilingual",
    },
    "backends.models.endpoint_embedder",
)

IMAGE_EMBEDDERS: ModelKind[Model[Any]] = ModelKind("backends.models.clip")

LATE_EMBEDDERS: ModelKind[Model[Any]] = ModelKind("backends.models.late_interaction")

EMBEDDERS: dict[Embeds, ModelKind[Any]] = {
    Embeds.TEXTS: TEXT_EMBEDDERS,
    Embeds.PICTURES: IMAGE_EMBEDDERS,
    Embeds.EITHER: IMAGE_EMBEDDERS,
    Embeds.PAIRS: IMAGE_EMBEDDERS,
    Embeds.PATCHES: LATE_EMBEDDERS,
}
"""By their inputs."""

LANGUAGE_MODELS: dict[EntryKind, str] = {
    EntryKind.LLM: "backends.models.endpoint",
    EntryKind.VLM: "backends.models.endpoint",
    EntryKind.LOCAL: "backends.models.local_model",
}
"""The module of each kind of generative model."""


def language_model(config_key: str, options: ModelEntry) -> "Model[LanguageModel]":
    """Return an unloaded generative model; ``UserError`` names its key in the corpus file if what runs it is not installed."""
    offer = pkgutil.resolve_name(f"{LANGUAGE_MODELS[options.kind]}:model")
    return cast("Model[LanguageModel]", offer(config_key, options))


def language_model_card(options: ModelEntry) -> "ModelCard":
    """Return a generative model's card; nothing needs to be installed."""
    return cast("ModelCard", pkgutil.resolve_name(f"{LANGUAGE_MODELS[options.kind]}:card")(options))


def scorer(config_key: str, options: ModelEntry) -> "Model[PassageScorer]":
    """Return an unloaded passage scorer; arguments and errors as for ``language_model``."""
    offer = pkgutil.resolve_name("backends.models.passage_scorers:model")
    return cast("Model[PassageScorer]", offer(config_key, options))
