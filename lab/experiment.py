"""Experiments: which presets answer which questions, as files."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar, Literal

import yaml
from pydantic import Field, StrictInt, ValidationError

from evaluation.questions import mistake_at
from lab.judging.metrics import METRICS
from schemas.answers import AnswerPreset, AnswerSettings
from schemas.base import Frozen, Location, Section, Text
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import Spend
from schemas.errors import UserError
from schemas.retrieval import Name, Preset
from tasks.answering.compose import AnswerPrompt, read_answer_prompt
from tasks.answering.presets import PresetError, read_named, read_preset

Setting = StrictInt | Text


class AnswerGrid(Section):
    """Answer presets, each with every combination of settings."""

    presets: list[Name] = Field(min_length=1, description="Answer presets.")
    settings: dict[Text, list[Setting]] = Field(
        {}, description="Values of settings to combine, such as max_images: [1, 4] or retrieval: [pages, dense]."
    )


class GenerationParameters(Section):
    """Parameters of generative models; one that is null keeps the corpus file's value."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1, le=32_768)

    def of(self, models: Mapping[str, ModelEntry], judges: Sequence[str]) -> dict[str, Any]:
        """Return models with these parameters; judges and models that only score keep their own."""
        options = self.model_dump(exclude_none=True)
        return {
            name: model.model_copy(update=options) if model.kind.writes and name not in judges else model
            for name, model in models.items()
        }


class Hypothesis(Section):
    """A claim that one system beats another, which is tested and reported, never required."""

    better: Text = Field(description="An id of a system.")
    worse: Text = Field(description="An id of another.")
    metric: Text
    claim: Text = ""


class PaperRow(Section):
    """A row of a paper's table: values in the order of ``columns``; null if the paper has none."""

    system: Text = Field(description="The id of our system that does the same, or the paper's name for it.")
    values: list[float | None]
    setup: Text = Field("", description="Generator, judge and the like.")


class PaperTable(Section):
    """Figures that a paper prints, shown beside ours and never a target."""

    title: Text
    note: str = ""
    metric: Text | None = Field(
        None, description="Ours, where columns are types of documents; none: a column is a metric, such as evidence recall."
    )
    columns: list[Text]
    rows: list[PaperRow]


class Experiment(Section):
    """An experiment file."""

    label: Text = Field(description="Its title.")
    sentence: Text = Field("", description="What it compares, in a sentence.")
    source: Text = Field("", description="The paper or page that it repeats.")
    corpus: Text | None = Field(None, description="A corpus, as commands name it; --corpus overrides it.")
    version: Text = Field("live", description="A version, or live, previous, latest.")
    questions: Location | None = Field(None, description="JSONL, beside the file; none: the corpus's golden questions.")
    scope: Literal["corpus", "document"] = Field("corpus", description="document: a question searches its own documents.")
    k: int = Field(10, ge=1, le=200, description="Rows that a search returns.")
    searches: list[Name] = Field([], description="Retrieval presets.")
    answers: list[AnswerGrid] = Field([], description="Answer presets with settings.")
    generators: list[Name] = Field([], description="Models of the corpus file that write; none: each preset's own.")
    judges: list[Name] = Field(
        [], max_length=2, description="One or two models of the corpus file that grade answers if they pass a test."
    )
    judged: list[Text] = Field([], description="Judged metrics; none: all.")
    show_unadmitted: bool = Field(
        False,
        description="Whether judges grade metrics that they aren't admitted to; such grades are marked, and count nowhere.",
    )
    parameters: dict[Name, GenerationParameters] = Field(
        {}, description="Sets of parameters of the models that write, such as those of a paper and of its code."
    )
    use_parameters: Name | None = Field(None, description="Which of parameters; none: those of the corpus file.")
    labels: Location | None = Field(
        None, description="CSV or JSONL beside the file: what people say of answers, to compare the judges with."
    )
    repetitions: int = Field(1, ge=1, le=100, description="Times that each answer is made.")
    baseline: Text | None = Field(None, description="The id of the system that others are compared with; none: the first.")
    ranked_by: Text | None = Field(None, description="A metric by which the report ranks all systems.")
    budget: Spend = Field(Spend(), description="What its calls of models may cost; what is in the cache costs nothing.")
    retrieval_presets: dict[Text, dict[str, Any]] = Field({}, description="Retrieval presets of its own, by name.")
    answer_presets: dict[Text, dict[str, Any]] = Field({}, description="Answer presets of its own, by name.")
    hypotheses: list[Hypothesis] = Field([], description="Claims that are tested and reported.")
    papers: list[PaperTable] = Field([], description="Figures of papers.")

    @property
    def systems(self) -> "list[System]":
        """All systems, each once."""
        return list({system.id: system for system in (*self._searches(), *self._answers())}.values())

    def _searches(self) -> "Iterator[System]":
        for name in self.searches:
            yield System(id=name, kind="search", preset=name)

    def _answers(self) -> "Iterator[System]":
        for grid in self.answers:
            for preset, *values in itertools.product(grid.presets, *grid.settings.values()):
                settings: dict[str, Any] = dict(zip(grid.settings, values, strict=True))
                description = " ".join([str(preset), *(f"{name}={value}" for name, value in settings.items())])
                for model in (*self.generators,) or (None,):
                    yield System(
                        id=f"answer {description}" + (f" by {model}" if model else ""),
                        kind="answer",
                        preset=str(preset),
                        settings=settings | ({"model": model} if model else {}),
                    )


class PaperAnswer(AnswerPreset):
    """An answer preset of an experiment; the corpus must have a captioner of kind ``captioner``, or the model that answers.

    ``caption_prompts`` are the prompts that the captioner may have.
    """

    corrects_spelling: ClassVar[bool] = False  # papers send the question as it was asked
    checks_answers: ClassVar[bool] = False  # and judge what was written
    captioner: Literal["llm", "vlm"] | None = None
    own_descriptions: bool = False
    caption_prompts: list[Name] = Field([])


class System(Frozen):
    """One system of an experiment: a search or answer preset with settings."""

    id: str
    kind: Literal["search", "answer"]
    preset: str
    settings: dict[str, Any] = Field({})


def read_experiment(file: str, contents: Mapping[Any, Any]) -> Experiment:
    """Return the experiment of a YAML mapping; raises ``UserError`` with the key if it isn't one."""
    try:
        experiment = Experiment.model_validate(contents)
    except ValidationError as error:
        raise UserError(mistake_at(file, error)) from error
    for presets, kind, read in (
        (experiment.retrieval_presets, "retrieval_presets", read_preset),
        (experiment.answer_presets, "answer_presets", read_paper_answer),
    ):
        for name, preset in presets.items():
            try:
                read(name, preset)
            except PresetError as error:
                raise UserError(f"{file}: {kind}.{name}: {error}") from error
    if not experiment.systems:
        raise UserError(f"{file}: it names no presets; add 'searches: [pages]' or 'answers: [{{presets: [extractive]}}]'")
    for grid in experiment.answers:
        if unknown := sorted(set(grid.settings) - set(AnswerSettings.model_fields)):
            raise UserError(
                f"{file}: answers.settings: there is no {unknown[0]!r}; use {', '.join(AnswerSettings.model_fields)}"
            )
    for system in experiment.systems:
        try:
            AnswerSettings.model_validate(system.settings)
        except ValidationError as error:
            raise UserError(mistake_at(file, error, below="answers.settings.")) from error
    if unknown := [name for name in experiment.judged if name not in METRICS]:
        raise UserError(f"{file}: judged: there is no metric {unknown[0]!r}; use {', '.join(METRICS)}")
    if len(set(experiment.judges)) < len(experiment.judges):
        raise UserError(f"{file}: judges: {experiment.judges[0]} stands there twice; name another model, or one judge")
    if experiment.use_parameters is not None and experiment.use_parameters not in experiment.parameters:
        raise UserError(
            f"{file}: use_parameters: there is no set {experiment.use_parameters!r}; "
            f"use {', '.join(experiment.parameters) or 'none'}"
        )
    if experiment.labels and not experiment.judges:
        raise UserError(f"{file}: labels: there are no judges to compare with them; set 'judges'")
    ids = [system.id for system in experiment.systems]
    compared_systems = [
        experiment.baseline,
        *(name for hypothesis in experiment.hypotheses for name in (hypothesis.better, hypothesis.worse)),
    ]
    if unknown := [name for name in compared_systems if name is not None and name not in ids]:
        raise UserError(f"{file}: there is no system {unknown[0]!r}; they are {', '.join(ids)}")
    if uneven_rows := [row for table in experiment.papers for row in table.rows if len(row.values) != len(table.columns)]:
        raise UserError(
            f"{file}: papers: {uneven_rows[0].system} has {len(uneven_rows[0].values)} values; give one a column"
        )
    return experiment


def read_paper_answer(name: str, contents: Mapping[Any, Any]) -> PaperAnswer:
    """Return the answer preset of a YAML mapping; arguments and errors as for ``read_preset``."""
    return read_named(name, contents, PaperAnswer.model_validate)


@dataclass(frozen=True)
class PaperPresets:
    """The presets of experiments, by name; those of a corpus and of the product stand behind them."""

    retrieval: Mapping[str, Preset]
    answers: Mapping[str, PaperAnswer]


def presets_of(experiment: Experiment) -> PaperPresets:
    """Return the presets that an experiment may name: its own, and those of the packaged experiments."""
    experiments = [*packaged_experiments().values(), experiment]
    return PaperPresets(
        {
            name: read_preset(name, contents)
            for defining_experiment in experiments
            for name, contents in defining_experiment.retrieval_presets.items()
        },
        {
            name: read_paper_answer(name, contents)
            for defining_experiment in experiments
            for name, contents in defining_experiment.answer_presets.items()
        },
    )


@functools.cache
def paper_prompts() -> Mapping[str, AnswerPrompt]:
    """Return the prompts of the papers by name."""
    prompt_files = sorted(files("lab.papers").joinpath("prompts").iterdir(), key=lambda file: file.name)
    names = [
        (file.name.removesuffix(".md"), file.read_text(encoding="utf-8"))
        for file in prompt_files
        if file.name.endswith(".md")
    ]
    return {name: read_answer_prompt(name, text) for name, text in names}


@functools.cache
def packaged_experiments() -> Mapping[str, Experiment]:
    """Return the packaged experiments by name."""
    return {
        file.name.removesuffix(".yaml"): read_experiment(file.name, yaml.safe_load(file.read_text(encoding="utf-8")))
        for file in sorted(files("lab.papers").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    }
