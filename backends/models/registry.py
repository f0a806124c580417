"""The registry of models that a corpus file can name, by kind. To add one: a module beside this one, and a line here.

A module has a function ``model(named)``, which returns an unloaded ``Model``. It is imported on demand.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from schemas.base import Section
from schemas.corpus.models import EntryKind, ModelEntry
from schemas.errors import UserError
from schemas.models import DIMENSION, MINILM, MULTILINGUAL, NONE, Embeds, Model, ModelName, TextModel

if TYPE_CHECKING:
    from schemas.ports import LanguageModel, LateEmbedder, LayoutDetector, PassageScorer, Recogniser
    from schemas.versions import ModelCard

Offered = TypeVar("Offered", bound=Model[Any])


@dataclass(frozen=True)
class ModelKind(Generic[Offered]):
    """Interchangeable models.

    Attributes:
        noun: Their name in messages.
        section: The section of the corpus file, and ``key`` the key in it.
        modules: Their modules, by name.
        others: The module of all other names, which need a revision; None for none.
        served: The module of models behind an endpoint; None for none.
        optional: Whether a corpus file may name ``none``.
    """

    noun: str
    section: str
    key: str
    modules: dict[str, str]
    others: str | None = None
    served: str | None = None
    optional: bool = False

    @property
    def option(self) -> str:
        """The key in the corpus file, in full."""
        return f"{self.section}.{self.key}"

    @property
    def names(self) -> list[str]:
        """The packaged names."""
        return [*self.modules, *([NONE] if self.optional else [])]

    def chosen(self, options: Section) -> ModelName:
        """Return the model that a section names, ``none`` included, without importing it.

        Raises:
            UserError: There is no such model, or it needs a revision.
        """
        model_name = ModelName(getattr(options, self.key), option=self.option)
        if model_name.name not in self.names:
            self._module(model_name)
        return model_name

    def find(self, model_name: ModelName) -> Offered:
        """Return an unloaded model; errors as for ``check``."""
        self.check(model_name)
        offer = cast(Callable[[ModelName], Offered], pkgutil.resolve_name(f"{self._module(model_name)}:model"))
        return offer(model_name)

    def check(self, model_name: ModelName) -> None:
        """Raise ``UserError`` if there is no such model, it needs a revision, or is packaged and takes none of its settings."""
        self._module(model_name)
        if model_name.name in self.modules and (
            setting_names := " or ".join(name for name, _ in (*model_name.settings, *model_name.query_settings))
        ):
            raise UserError(
                f"{model_name.option}: {model_name.name!r} is packaged with all that it needs and takes no {setting_names}"
            )

    def of(self, options: Section) -> Offered:
        """Return the unloaded model that a section names; errors as for ``chosen``."""
        return self.find(self.chosen(options))

    def card(self, options: Section) -> "ModelCard | None":
        """Return the card of the model that a section names; None for ``none``. Errors as for ``chosen``."""
        model_name = self.chosen(options)
        return None if self.optional and model_name.name == NONE else self.find(model_name).card()

    def _module(self, model_name: ModelName) -> str:
        if model_name.name in self.modules:
            return self.modules[model_name.name]
        if self.served is not None and model_name.setting(DIMENSION) is not None:
            return self.served
        known_names = ", ".join(self.names)
        if self.others is None:
            raise UserError(f"{model_name.option}: there is no {self.noun} {model_name.name!r}; known here: {known_names}")
        if model_name.revision is None:
            raise UserError(
                f"{model_name.option}: {model_name.name!r} needs a revision, so that the same name always means the same model; "
                f"without one: {known_names}"
            )
        return self.others


TEXT_EMBEDDERS: ModelKind[TextModel] = ModelKind(
    noun="text embedder",
    section="embeddings",
    key="text",
    modules={
        MINILM: "backends.models.minilm",
        MULTILINGUAL: "backends.models.multilingual",
    },
    others="backends.models.sentence_transformer",
    served="backends.models.endpoint_embedder",
)

IMAGE_EMBEDDERS: ModelKind[Model[Any]] = ModelKind(
    noun="embedder of pictures", section="embeddings", key="image", modules={}, others="backends.models.clip"
)

LATE_EMBEDDERS: "ModelKind[Model[LateEmbedder]]" = ModelKind(
    noun="late-interaction model", section="embeddings", key="late", modules={}, others="backends.models.late_interaction"
)

EMBEDDERS: dict[Embeds, ModelKind[Any]] = {
    Embeds.TEXTS: TEXT_EMBEDDERS,
    Embeds.PICTURES: IMAGE_EMBEDDERS,
    Embeds.EITHER: IMAGE_EMBEDDERS,
    Embeds.PAIRS: IMAGE_EMBEDDERS,
    Embeds.PATCHES: LATE_EMBEDDERS,
}
"""By their inputs."""

RECOGNISERS: "ModelKind[Model[Recogniser]]" = ModelKind(
    noun="recogniser of words",
    section="captions",
    key="ocr",
    modules={"rapidocr": "backends.models.rapidocr_recogniser"},
    optional=True,
)

DETECTORS: "ModelKind[Model[LayoutDetector]]" = ModelKind(
    noun="layout detector",
    section="captions",
    key="layout",
    modules={"rapid-layout": "backends.models.rapid_layout_detector"},
    optional=True,
)

KINDS: tuple[ModelKind[Any], ...] = (TEXT_EMBEDDERS, RECOGNISERS, DETECTORS)
"""Kinds with packaged models."""

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
