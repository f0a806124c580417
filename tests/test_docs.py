"""What the documentation says holds: links, paths, commands, keys and routes."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import app
from lab.experiment import read_experiment
from lab.judging.metrics import METRICS
from pipeline.corpus.corpora import json_schema
from schemas.corpus import Corpus

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_KEYS = ("<!-- keys: begin -->\n", "<!-- keys: end -->")


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _spans(page: Path) -> list[str]:
    """Return a page's code spans outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", "".join(page.read_text(encoding="utf-8").split("```")[::2]))


def _fenced(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of a page's fenced blocks."""
    yield from re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_decision_has_a_number_of_its_own_and_its_title_repeats_it() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(file.name.partition("-")[0]) for file in decisions] == list(range(1, len(decisions) + 1))
    for number, file in enumerate(decisions, start=1):
        text = file.read_text(encoding="utf-8")
        assert text.startswith(f"# {number}. ")
        assert "\n## Decision\n" in text, f"{file.name} has no decision"
        assert text.count("\n") <= 65, f"{file.name} takes more than two minutes to read"


def test_code_names_decisions_that_exist() -> None:
    last = len(list((ROOT / "docs" / "decisions").glob("*.md")))
    tracked = subprocess.check_output(["git", "ls-files", "*.py", "*.toml", "*.md"], cwd=ROOT, text=True).split()
    for name in tracked:
        text = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else ""
        for number in re.findall(r"(?:\bdecisions?[\s/]+|docs/decisions/)0*(\d+)\b", text):
            assert 1 <= int(number) <= last, f"{name} names decision {number}, which doesn't exist"


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{_named(page)} links to {target}, which doesn't exist"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=_named)
def test_paths_that_guide_a_reader_exist(page: Path) -> None:
    top = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for span in _spans(page):
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", span) and span.partition("/")[0] in top and "/" in span:
            exists = (ROOT / span).exists() or (ROOT / f"{span}.py").exists()
            assert exists, f"{_named(page)} names {span}, which doesn't exist"


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_modules_that_are_run_exist(page: Path) -> None:
    for module in re.findall(r"python -m ((?:bench|tests|pipeline)\.[\w.]+)", page.read_text(encoding="utf-8")):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), f"{_named(page)} runs {module}, which doesn't exist"


def test_the_diagram_of_folders_has_every_layer() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (diagram,) = [text for _, text in _fenced(ROOT / "docs" / "architecture.md") if text.startswith("flowchart TD")]
    above = "bench"
    for layer in linter["contracts"][0]["layers"][1:]:
        below = " & ".join(re.findall(r"\w+", layer))
        assert f"{above} --> {below}" in re.sub(r'\["[^"]*"\]', "", diagram)
        above = below


def test_names_of_the_code_that_guide_a_contributor_exist() -> None:
    for span in _spans(ROOT / "CONTRIBUTING.md"):
        if re.fullmatch(r"_?[a-z]+(_[a-z]+)+(\(\))?|[A-Z_]{4,}", span) and span != "WEAVIATE_URL":
            process = subprocess.run(["git", "grep", "-qw", span.removesuffix("()"), "--", "*.py"], cwd=ROOT, check=False)
            assert process.returncode == 0, f"CONTRIBUTING.md names {span}, which doesn't exist"


def _code_in_readme() -> list[str]:
    return [line for _, block in _fenced(ROOT / "README.md") for line in block.splitlines()] + _spans(ROOT / "README.md")


def test_the_readme_shows_every_command_and_no_other() -> None:
    readme_commands = {match[1] for code in _code_in_readme() if (match := re.match(r"inset ([a-z]+)", code))}
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert readme_commands == commands | {group.name for group in app.registered_groups}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=_named)
def test_make_targets_exist(page: Path) -> None:
    code = [line for _, block in _fenced(page) for line in block.splitlines()] + _spans(page)
    targets = {match[1] for line in code if (match := re.match(r"make ([a-z0-9-]+)", line))}
    assert targets
    for target in targets:
        subprocess.run(["make", "--dry-run", target], check=True, capture_output=True, cwd=ROOT)


@pytest.mark.parametrize("page", [ROOT / "README.md", REFERENCE / "corpus-file.md"], ids=_named)
def test_corpus_files_in_the_documentation_are_valid(page: Path) -> None:
    corpora = [yaml.safe_load(block) for language, block in _fenced(page) if language == "yaml"]
    assert corpora
    for corpus in corpora:
        Corpus.model_validate({"name": "handbooks", "source": "pdfs"} | corpus)


def test_the_reference_of_judges_has_every_metric_and_a_valid_experiment() -> None:
    page = REFERENCE / "judges.md"
    (experiment,) = [yaml.safe_load(block) for language, block in _fenced(page) if language == "yaml"]
    read_experiment("judges.md", experiment)
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| (?:Beyond Text|OMG-QA) \|$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == list(METRICS)


def test_the_reference_has_every_key_of_the_corpus_file(request: pytest.FixtureRequest) -> None:
    page = REFERENCE / "corpus-file.md"
    before, _, remainder = page.read_text(encoding="utf-8").partition(_KEYS[0])
    _, end, after = remainder.partition(_KEYS[1])
    renewed_text = before + _KEYS[0] + _tables() + end + after
    if request.config.getoption("--update-golden"):
        page.write_text(renewed_text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == renewed_text, "renew it with: pytest --update-golden tests/test_docs.py"


def test_the_reference_has_every_route() -> None:
    api = json.loads((ROOT / "tests" / "golden" / "openapi.json").read_text(encoding="utf-8"))
    routes = {f"{method.upper()} {path}" for path, methods in api["paths"].items() for method in methods}
    documented_routes = {span for span in _spans(REFERENCE / "http-api.md") if re.match(r"(GET|POST|DELETE) ", span)}
    assert documented_routes == routes


def _tables() -> str:
    """Return a table of keys for the corpus file, and for each section of it."""
    schema = json_schema()
    waiting, visited, text = [("", schema)], set[str](), ""
    while waiting:
        path, section = waiting.pop(0)
        rows = []
        for name, key in section["properties"].items():
            inner = _definitions(schema, key)
            key_path = f"{path}.{name}" if path else name
            for definition, suffix in inner:
                if definition not in visited and "properties" in schema["$defs"][definition]:
                    visited.add(definition)
                    waiting.append((key_path + suffix, schema["$defs"][definition]))
            rows.append(f"| `{name}` | {_default(name, key, section)} | {_meaning(schema, key, inner)} |\n")
        title = f"### `{path}`\n\n{section.get('description', '')}\n\n" if path else ""
        text += f"{title}| key | default | meaning |\n|---|---|---|\n{''.join(rows)}\n"
    return text


def _definitions(schema: dict[str, Any], key: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the definitions that a key refers to, each with what stands behind the key's name."""
    definitions = []
    values = key.get("additionalProperties")
    for part, suffix in [(key, ""), (values if isinstance(values, dict) else {}, ".NAME")]:
        for option in [part, *part.get("anyOf", []), *part.get("oneOf", [])]:
            name = option.get("$ref", "").rpartition("/")[2]
            if name and schema["$defs"][name].get("type") == "object":
                definitions.append((name, suffix))
    return definitions


def _default(name: str, key: dict[str, Any], section: dict[str, Any]) -> str:
    if name in section.get("required", []):
        return "required"
    default = key.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default, ensure_ascii=False)}`"


def _meaning(schema: dict[str, Any], key: dict[str, Any], inner: list[tuple[str, str]]) -> str:
    description = key.get("description") or " ".join(schema["$defs"][name].get("description", "") for name, _ in inner)
    return " ".join(description.split()).replace("|", "\\|")
