"""Answer presets of a corpus: packaged ones, and those in a folder of the corpus file."""

from collections.abc import Mapping

from backends.models.registry import language_model
from pipeline.corpus.presets import own_presets, preset_of
from pipeline.corpus.prompts import find_answer_prompt
from pipeline.corpus.workspace import Workspace
from schemas.answers import AnswerPreset
from schemas.corpus import Corpus
from schemas.errors import RequestError, UserError
from tasks.answering.answer_presets import EXTRACTIVE, WITH_A_MODEL, packaged_answers, read_answer_preset
from tasks.answering.presets import preset_named


def answers_of(corpus: Corpus) -> Mapping[str, AnswerPreset]:
    """Return all answer presets by name, with the model of the corpus file.

    Raises:
        UserError: The folder can't be read, or a file in it is invalid or has the name of a packaged preset.
    """
    options = corpus.answer
    presets = own_presets(
        options.presets, "answer.presets", packaged_answers, read_answer_preset, "it needs 'label' and 'sentence'"
    )
    return {name: _with_corpus_model(preset, corpus) for name, preset in presets.items()}


def answer_preset_of(corpus: Corpus, name: str | None) -> AnswerPreset:
    """Return an answer preset; the default where ``name`` is None.

    Raises:
        RequestError: There is none of that name.
        UserError: As for ``answers_of``, or the corpus file's default doesn't exist.
    """
    if name is not None:
        return preset_named(name, answers_of(corpus))
    try:
        options = corpus.answer
        return preset_named(options.preset or (WITH_A_MODEL if options.model else EXTRACTIVE), answers_of(corpus))
    except RequestError as error:
        raise UserError(f"answer.preset of the corpus file: {error.message}") from error


def lacking_for_answer(preset: AnswerPreset, corpus: Corpus) -> dict[str, str]:
    """Return what an answer preset needs and the corpus file lacks, with the setting that adds it."""
    if preset.model is None:
        return {}
    model = corpus.models.get(preset.model)
    if model is None or not model.kind.writes:
        return {f"a model {preset.model}": f"models.{preset.model}, or answer.model"}
    if preset.max_images and not model.kind.sees:
        return {"a model that sees pictures": f"models.{preset.model} to one of kind vlm"}
    return {}


def check_answers(workspace: Workspace) -> AnswerPreset:
    """Return the default answer preset after checking that the corpus file has what it needs.

    Raises:
        UserError: Preset, prompt, retrieval preset or model is missing, or the model's package is not installed.
    """
    corpus = workspace.corpus
    preset = answer_preset_of(corpus, None)
    try:
        if preset.retrieval is not None:
            preset_of(corpus.retrieval, preset.retrieval)
    except RequestError as error:
        raise UserError(f"{workspace.file}: answer preset {preset.name}: retrieval: {error.message}") from error
    if absent := lacking_for_answer(preset, corpus):
        raise UserError(
            f"{workspace.file}: answer.preset: {preset.name} needs {', '.join(absent)}; set {', '.join(absent.values())}, "
            "or name another preset"
        )
    if preset.model is not None:
        find_answer_prompt(preset.prompt, workspace.file.parent, f"{workspace.file}: answer preset {preset.name}: prompt")
        language_model(f"{workspace.file}: models.{preset.model}", corpus.models[preset.model])
    return preset


def _with_corpus_model(preset: AnswerPreset, corpus: Corpus) -> AnswerPreset:
    """Return a preset that is written by the model of the corpus file, if that can stand in for the preset's own."""
    name = corpus.answer.model
    if preset.model is None or name is None:
        return preset
    writer = corpus.models.get(name)
    # A model that sees nothing replaces none that is sent pictures.
    if preset.max_images and writer is not None and not writer.kind.sees:
        return preset
    return preset.model_copy(update={"model": name})
