"""The corpus file: everything a corpus is, in one YAML document, validated.

Only ``name`` and ``source`` are required. Unknown keys are errors, so that a typing mistake never passes as a default.
Each module holds the sections that it names.
"""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase

from pydantic import Field, field_validator

from schemas.corpus.fields import Location, Section, Source, Text
from schemas.corpus.models import CaptionOptions, EmbeddingOptions, ModelCaptioner, PoolOptions
from schemas.corpus.operations import BudgetOptions, GateOptions, OperationOptions, RayOptions, RetentionOptions
from schemas.corpus.parse import ChunkOptions, ParseOptions, TagOptions
from schemas.corpus.retrieval import AnswerOptions, IndexOptions, Ranking, RetrievalOptions
from schemas.ids import CORPUS_NAME


class Corpus(Section):
    """A corpus file.

    ``source``, ``store`` and ``questions`` are resolved against the file's folder when the file is loaded; here they are
    absolute paths or ``s3://`` addresses.
    """

    name: str = Field(description="The corpus's name: a-z, 0-9 and _, starting with a letter, at most 40 characters.")
    source: Source = Field(description="A folder, a glob such as docs/**/*.pdf, or s3://bucket/prefix.")
    store: Location | None = Field(
        None, description="Where everything is kept: a folder or s3://bucket/prefix; default: .inset/store beside corpora/."
    )
    schedule: Text | None = Field(None, description="When Airflow refreshes: a cron expression or @daily; none: by hand.")
    questions: Location | None = Field(None, description="Golden questions, a JSONL file.")
    experiment: Text = Field(
        "presets", description="A packaged experiment or a file .yaml: gates.metrics name its metrics, and Airflow runs it."
    )
    doc_types: dict[Text, Text] = Field(
        {},
        description="Types of documents by a glob of their sources, such as manuals/*: manual; the first that fits. Searches "
        "can be narrowed by type, and experiments give their results by type.",
    )
    parse: ParseOptions = ParseOptions()
    tags: TagOptions = TagOptions()
    captions: CaptionOptions = CaptionOptions()
    embeddings: EmbeddingOptions = EmbeddingOptions()
    ray: RayOptions = RayOptions()
    chunks: ChunkOptions = ChunkOptions()
    index: IndexOptions = IndexOptions()
    retrieval: RetrievalOptions = RetrievalOptions()
    ranking: Ranking = Ranking()
    answer: AnswerOptions = AnswerOptions()
    gates: GateOptions = GateOptions()
    budget: BudgetOptions = BudgetOptions()
    retention: RetentionOptions = RetentionOptions()
    operations: OperationOptions = OperationOptions()

    @property
    def gpus(self) -> int:
        """GPUs that the models of enrich ask for at most at once: each model's actors run alone, and ``auto`` asks for none."""
        embeddings = self.embeddings
        pools: list[ModelCaptioner | PoolOptions] = [
            model for model in self.captions.models.values() if not model.kind.is_at_endpoint
        ]
        pools += [model for model in (embeddings, embeddings.tables) if model is not None and model.endpoint is None]
        pools += [model for model in (embeddings.image, embeddings.late) if model is not None]
        gpus_and_workers = [(0.0 if pool.gpus == "auto" else pool.gpus, pool.workers or 1) for pool in pools]
        # A model that is split takes whole GPUs, whatever ``gpus`` is.
        gpus_and_workers += [
            (model.tensor_parallel, model.workers or 1)
            for model in self.captions.models.values()
            if model.tensor_parallel > 1
        ]
        return max((math.ceil(gpus * workers) for gpus, workers in gpus_and_workers), default=0)

    def doc_type(self, sources: Iterable[str]) -> str | None:
        """Return the type of a document: that of the first glob that fits one of its sources; None where none does."""
        source_names = [*sources]
        fitting = (
            kind for glob, kind in self.doc_types.items() if any(fnmatchcase(source, glob) for source in source_names)
        )
        return next(fitting, None)

    @field_validator("name")
    @classmethod
    def _spelled(cls, name: str) -> str:
        if not CORPUS_NAME.fullmatch(name):
            raise ValueError("use a-z, 0-9 and _ only, start with a letter, at most 40 characters")
        return name

    @field_validator("schedule")
    @classmethod
    def _cron(cls, schedule: str | None) -> str | None:
        presets = {"@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "@continuous", "@once"}
        if schedule is not None and schedule not in presets and len(schedule.split()) not in (5, 6):
            raise ValueError(f"use a cron expression of five fields or one of {', '.join(sorted(presets))}")
        return schedule
