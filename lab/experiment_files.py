"""Experiment files: packaged ones, and those of users."""

from dataclasses import dataclass
from pathlib import Path

from lab.experiment import Experiment, packaged_experiments, read_experiment
from pipeline.corpus.corpora import find_corpus_file, load_corpus, read_mapping
from schemas.corpus import Corpus
from schemas.errors import UserError


@dataclass(frozen=True)
class NamedExperiment:
    """An experiment with its name, and the folder that its paths are relative to."""

    name: str
    experiment: Experiment
    folder: Path

    @property
    def questions(self) -> str | None:
        """The path of its own questions; None if it asks the corpus's."""
        return None if self.experiment.questions is None else str(self.folder / self.experiment.questions)

    def questions_on(self, corpus: Corpus) -> str | None:
        """Return the path of the questions that it asks a corpus: its own, or the corpus's; None without any."""
        return self.questions or corpus.questions


def find_experiment(name: str, corpus: str | None = None) -> tuple[NamedExperiment, str]:
    """Return an experiment and its corpus, which ``corpus`` overrides, by a packaged name, a file, or a corpus, meaning its own.

    Raises ``UserError`` if there is no such file, it is wrong, or no corpus is named.
    """
    packaged = packaged_experiments()
    if name in packaged:
        named_experiment = NamedExperiment(name, packaged[name], Path.cwd())
    else:
        try:
            file = find_corpus_file(name)
        except UserError as error:
            experiment_names = ", ".join(packaged)
            raise UserError(
                f"there is no experiment or corpus {name}; experiments are {experiment_names}, or an experiment file"
            ) from error
        contents = read_mapping(file, "experiment", "it needs 'label', and 'searches' or 'answers'")
        if "source" in contents and "label" not in contents:
            return find_experiment(load_corpus(name).experiment, name)
        named_experiment = NamedExperiment(file.stem, read_experiment(str(file), contents), file.parent)
    corpus_name = corpus or named_experiment.experiment.corpus
    if corpus_name is None:
        raise UserError(f"experiment {named_experiment.name} names no corpus; add --corpus NAME")
    return named_experiment, corpus_name
