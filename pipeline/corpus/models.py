"""Models loaded in this process, each once."""

import functools
import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any

from backends.models.registry import EMBEDDERS, language_model, scorer
from schemas.corpus.models import EmbeddingModels, EmbeddingOptions, EntryKind, ModelEntry, Price, embedding_models
from schemas.errors import BadInputError, TransientError, UserError
from schemas.models import CODE_REVISION, TRUST, Embeds, Model, ModelName, Reply, Request, Settings
from schemas.ports import LanguageModel, PassageScorer
from schemas.versions import ModelCard, Spent, VectorSpace
from tasks.answering.trace import side_span
from tasks.enriching.spaces import DEFAULT, SPACES, Space
from tasks.enriching.spending import cost_of

AT_ONCE = 32
"""Texts embedded at once."""

TOKENS = "late"
"""The default scorer: late interaction with the tokens of the packaged text model."""

_LOADING: dict[Hashable, threading.Lock] = {}
"""A lock for each model, so that no question waits for a model that it doesn't use."""

_OF_THIS_THREAD = threading.local()
_LOCAL: dict[str, tuple[LanguageModel, threading.Lock]] = {}


class Embedders(Mapping[str, Any]):
    """The embedders of a version's vectors, by space; each is loaded on first use.

    ``then`` are the embedding options of the version's build; ``now`` returns the present ones.
    """

    def __init__(
        self, spaces: Mapping[str, VectorSpace], then: EmbeddingModels, now: Callable[[], EmbeddingModels]
    ) -> None:
        self._spaces = {name: space for name, space in spaces.items() if name in SPACES}
        self._then, self._now = then, now

    def __getitem__(self, name: str) -> Any:
        """Return an embedder.

        Raises:
            UserError: It isn't installed, or not at that revision, or brings code that the present corpus file doesn't allow.
        """
        space, version_space, now = SPACES[name], self._spaces[name], self._now()
        if not runs_no_other_code(version_space, now):
            raise UserError(
                f"{space.option}: the version's vectors are of {version_space.model.name} at revision "
                f"{version_space.model.revision}, which brings code of its own; where that is read, allow it in this corpus "
                "file: the same model, revision and code_revision, and trust_remote_code: true"
            )
        return embedder(space, version_space, _query_settings(space, version_space, now, self._then))

    def __contains__(self, name: object) -> bool:
        return name in self._spaces

    def __iter__(self) -> Iterator[str]:
        return iter(self._spaces)

    def __len__(self) -> int:
        return len(self._spaces)


class QueryModels(Mapping[str, Any]):
    """The models that preset steps name; each is loaded on first use.

    A generative model serves one caller at a time: each thread has its own client of an endpoint; a local model is shared.
    """

    def __init__(
        self,
        options: Mapping[str, ModelEntry],
        embedders: Mapping[str, Any],
        stopped: Callable[[], bool] = lambda: False,
        record: "Record | None" = None,
    ) -> None:
        self._record = record
        self._options = {
            name: entry for name, entry in options.items() if entry.kind.writes or entry.kind is EntryKind.CROSS_ENCODER
        }
        self._embedders = embedders
        self._stopped = stopped
        self._metered: dict[str, Metered] = {}

    @property
    def spent(self) -> Spent:
        """Cost of its generative models so far, at the prices in the corpus file."""
        return sum((metered.spent for metered in self._metered.values()), Spent())

    def __getitem__(self, name: str) -> Any:
        """Return a model.

        Raises:
            UserError: It can't be used as the corpus file names it.
        """
        if name not in self._options:
            return self._packaged(name)
        options, setting = self._options[name], f"models.{name}"
        if options.kind.writes:
            if name not in self._metered:
                self._metered[name] = _generative(setting, options, self._stopped, self._record)
            return self._metered[name]
        with _loading((setting, options.model_dump_json())):
            return _scorer(setting, options)

    def _packaged(self, name: str) -> Any:
        model = self._embedders[DEFAULT.name] if name == TOKENS else None
        if not hasattr(model, "scores"):
            raise UserError(
                f"the text model of this version doesn't rank passages by its tokens; name a model as models.{name}"
            )
        return model

    def __iter__(self) -> Iterator[str]:
        return iter({**self._options, TOKENS: None})

    def __len__(self) -> int:
        return len({**self._options, TOKENS: None})


Record = Callable[[LanguageModel, ModelEntry], LanguageModel]
"""Wraps a generative model, so that its replies are kept."""


class Metered:
    """A generative model for one question: it serialises calls to a shared model, and counts the cost."""

    def __init__(
        self, model: LanguageModel, price: Price, turn: AbstractContextManager[object], stopped: Callable[[], bool]
    ) -> None:
        self._model, self._price, self._turn, self._stopped = model, price, turn, stopped
        self.name, self.spent = model.name, Spent()

    def stream(self, request: Request) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        """Yield what ``LanguageModel.stream`` yields."""
        with self._turn, side_span(f"call: {self.name}") as measured:
            before = replace(self._model.usage)
            try:
                with closing(self._model.stream(request, stopped=self._stopped)) as replies:
                    yield from replies
            finally:
                used = cost_of(self._price, self._model.usage.since(before))
                self.spent += used
                measured.set_attributes(
                    {"gen_ai.usage.input_tokens": used.input_tokens, "gen_ai.usage.output_tokens": used.output_tokens}
                )


def _generative(setting: str, options: ModelEntry, stopped: Callable[[], bool], record: Record | None) -> Metered:
    """Return a generative model: an endpoint's client of this thread, or the local model of this process."""
    wrapped = record or (lambda model, _options: model)
    cache_key = f"{setting} {options.model_dump_json()}"
    if options.kind is EntryKind.LOCAL:
        with _loading(cache_key):
            if cache_key not in _LOCAL:
                _LOCAL[cache_key] = language_model(setting, options).load(1), threading.Lock()
        return Metered(wrapped(_LOCAL[cache_key][0], options), options.price, _LOCAL[cache_key][1], stopped)
    thread_models: dict[str, LanguageModel] = _OF_THIS_THREAD.__dict__.setdefault("models", {})
    # A model that gave up never asks again.
    if cache_key not in thread_models or getattr(thread_models[cache_key], "has_ended", False):
        thread_models[cache_key] = language_model(setting, options).load(1)
    return Metered(wrapped(thread_models[cache_key], options), options.price, nullcontext(), stopped)


def _loading(model: Hashable) -> threading.Lock:
    """Return the lock of a model's load: two threads would load it twice."""
    return _LOADING.setdefault(model, threading.Lock())


@functools.lru_cache(maxsize=4)
def _scorer(setting: str, options: ModelEntry) -> PassageScorer:
    return scorer(setting, options).load(1)


def stored_embedding_models(parameters: Mapping[str, Any]) -> EmbeddingModels:
    """Return the embedding models by which a version was built, from the parameters of its manifest."""
    models = {name: ModelEntry.model_validate(entry, extra="ignore") for name, entry in parameters["models"].items()}
    return embedding_models(models, EmbeddingOptions.model_validate(parameters["embeddings"]))


def runs_no_other_code(version_space: VectorSpace, options: EmbeddingModels) -> bool:
    """Return whether the model of a version's space brings no code, or embedding options allow that code.

    Whoever writes to the store could allow it in a version's manifest, so that alone allows nothing.
    """
    if TRUST not in version_space.settings:
        return True
    version_model = version_space.model.name, version_space.model.revision, version_space.settings.get(CODE_REVISION)
    allowed = (model for space in SPACES.values() if (model := space.model(options)) is not None and model.setting(TRUST))
    return any(
        (allowed_model.name, allowed_model.revision, allowed_model.setting(CODE_REVISION)) == version_model
        for allowed_model in allowed
    )


def is_here(name: str, version_space: VectorSpace, options: EmbeddingModels) -> bool:
    """Return whether the model of a version's space is installed at that revision, and may run by present options."""
    try:
        return (
            name in SPACES
            and runs_no_other_code(version_space, options)
            and EMBEDDERS[SPACES[name].embeds].find(_model_name(SPACES[name], version_space)).card() == version_space.model
        )
    except UserError:
        return False


def embedder(space: Space, version_space: VectorSpace, query_settings: Settings = ()) -> Any:
    """Return the embedder of a version's space; ``query_settings`` are settings for queries.

    Raises:
        UserError: It isn't installed, or not at that revision.
    """
    model_name = _model_name(space, version_space, query_settings)
    with _loading((space.embeds, model_name)):
        return loaded(space.embeds, model_name, version_space.model)


@functools.lru_cache(maxsize=6)
def loaded(embeds: Embeds, model_name: ModelName, card: ModelCard) -> Any:
    """Load a model; raises as ``embedder`` does."""
    model: Model[Any] = EMBEDDERS[embeds].find(model_name)
    if (installed_card := model.card()) != card:
        difference = (
            f"it has {installed_card.revision}" if installed_card.revision != card.revision else "it is used differently"
        )
        raise UserError(
            f"the vectors are of {card.name} at revision {card.revision}, and here {difference}; "
            f"refresh the corpus, or go back to the release of Inset that built them"
        )
    return model.load(AT_ONCE)


def _query_settings(space: Space, version_space: VectorSpace, *options: EmbeddingModels) -> Settings:
    """Return the query settings of a version's model, from the first options that name this model."""
    for embedding_options in options:
        model_name = space.model(embedding_options)
        if (
            model_name is not None
            and model_name.name == version_space.model.name
            and model_name.revision in (None, version_space.model.revision)
        ):
            return model_name.query_settings
    return ()


def _model_name(space: Space, version_space: VectorSpace, query_settings: Settings = ()) -> ModelName:
    settings = tuple(sorted(version_space.settings.items()))
    return ModelName(version_space.model.name, version_space.model.revision, settings, space.option, query_settings)
