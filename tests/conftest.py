import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from backends.engines.weaviate_server import WeaviateServer
from tests import endpoint_server, ray_cluster, s3_server, tiny_models, tiny_vlm
from tests.browser import Browser
from tests.endpoint_server import EndpointServer
from tests.weaviate_server import running

GOLDEN = Path(__file__).parent / "golden"
AXE = "axe-core@4.14.1"

CheckGolden = Callable[[str, str], None]

# Ray reads how it authenticates once, when it is imported: whichever test imports it first, clusters of tests can be joined.
os.environ |= ray_cluster.AUTH
# Ray's workers are nice to others by default (15), so that tests beside them would leave them next to nothing of two cores.
os.environ.setdefault("RAY_worker_niceness", "0")

# How long an example takes is the machine's business.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Generate the Python client where it is missing or old; a worker of xdist finds it, and guides copy no client."""
    generator = Path(__file__).parent.parent / "clients" / "python" / "generate.py"
    if not hasattr(config, "workerinput") and generator.is_file():
        subprocess.run([sys.executable, generator], check=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden again instead of comparing with it")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> CheckGolden:
    """Compare a text with ``tests/golden/<name>``, or write it there with ``--update-golden``."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"{file} is missing; write it with: pytest --update-golden"
        assert text == file.read_text(encoding="utf-8"), f"{name} changed; if that is meant: pytest --update-golden"

    return check


@pytest.fixture(scope="session")
def weaviate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WeaviateServer]:
    """A real Weaviate server; tests that want it are marked ``live``."""
    with running(tmp_path_factory.mktemp("weaviate")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A real S3 server process."""
    with s3_server.running() as address:
        yield address


@pytest.fixture
def s3_bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of its own; the environment leads to it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    from backends.stores.s3_store import s3_client

    bucket = f"inset-{uuid.uuid4().hex[:8]}"
    s3_client().create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture
def endpoint() -> Iterator[EndpointServer]:
    """A server of a generative model, which answers by a script."""
    with endpoint_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def vlm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a vision-language model with a few random weights; read only."""
    import torch

    torch.set_num_threads(1)  # with so little to do, threads only wait for each other: 20 times as long on two busy cores
    return tiny_vlm.write(tmp_path_factory.mktemp("vlm"))


@pytest.fixture(scope="session")
def causal_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a language model that reads text alone, with a few random weights; read only."""
    import torch

    torch.set_num_threads(1)
    return tiny_models.write_causal(tmp_path_factory.mktemp("causal"))


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as shared_browser:
        yield shared_browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A browser of which no script may fail and no policy be violated; what the service refuses isn't a complaint."""
    one_browser.complaints.clear()
    yield one_browser
    assert [complaint for complaint in one_browser.complaints if not complaint.startswith("Failed to load resource")] == []


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extract("package/axe.min.js", folder, filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[Path]:
    """A folder, and rights that end somewhere: root may read everything, so that this process is somebody else meanwhile."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="inset-"))
    os.chown(folder, _NOBODY, _NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(0)
        shutil.rmtree(folder)


_NOBODY = 65534


@pytest.fixture(autouse=True, scope="session")
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands keep for the next one, such as the questions asked, isn't kept in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def airflow_env(tmp_path: Path) -> dict[str, str]:
    """The environment of an Airflow of its own: SQLite under ``tmp_path``, this checkout's DAG file and corpora."""
    root = Path(__file__).parent.parent
    home = tmp_path / "airflow"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "INSET"))}
    return environment | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "INSET_CORPORA": str(root / "corpora"),
        "PYTHONPATH": str(root),
    }


@pytest.fixture
def airflow_database(airflow_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That environment with a database: a copy of one that is migrated once for all processes of a test run."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    migrated, home = shared / "airflow-migrated", Path(airflow_env["AIRFLOW_HOME"])
    with FileLock(shared / "airflow-migrated.lock"):
        if not (migrated / "done").exists():
            address = {
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{migrated}/airflow.db",
                "AIRFLOW_HOME": str(migrated),
            }
            command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
            subprocess.run(command, env=airflow_env | address, check=True, capture_output=True)
            (migrated / "done").touch()
    home.mkdir(exist_ok=True)
    shutil.copy(migrated / "airflow.db", home)
    return airflow_env
