"""The presets of papers as folders of presets of one's own, which a corpus file can name."""

import json
from importlib.resources import files
from pathlib import Path

from lab.experiment import packaged_experiments, paper_prompts, presets_of
from tasks.answering.compose import answer_prompts

PROMPTS = answer_prompts() | dict(paper_prompts())
"""Packaged prompts, and those of the papers."""

PAPERS = presets_of(packaged_experiments()["presets"])
"""Presets of the papers."""


def write_paper_presets(folder: Path) -> tuple[Path, Path]:
    """Write the retrieval and the answer presets of all packaged experiments; return the two folders."""
    retrieval, answers = folder / "paper-searches", folder / "paper-answers"
    for presets_folder in (retrieval, answers):
        presets_folder.mkdir()
    for experiment in packaged_experiments().values():
        for name, preset in experiment.retrieval_presets.items():
            (retrieval / f"{name}.yaml").write_text(json.dumps(preset))
        for name, preset in experiment.answer_presets.items():
            prompt = Path(str(files("lab.papers").joinpath("prompts", f"{preset['prompt']}.md")))
            settings = {
                key: value
                for key, value in preset.items()
                if key not in ("captioner", "own_descriptions", "caption_prompts")
            }
            (answers / f"{name}.yaml").write_text(
                json.dumps(settings | ({"prompt": str(prompt)} if prompt.exists() else {}))
            )
    return retrieval, answers
