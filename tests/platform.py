"""Every part of a platform as plain processes of this machine: ``python -m tests.platform``; Ctrl-C ends all of them.

PostgreSQL, Redis, an S3 server, Airflow with two Celery workers, a Ray head with two workers, two query services behind nginx;
Weaviate and Prometheus where they are on ``PATH``. All data are in a folder that goes when they end.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.stores.s3_store import s3_client
from tests import airflow_server, ray_cluster, redis_server, s3_server, weaviate_server
from tests.airflow_server import EVERY_PART, ROOT, Airflow, fetch
from tests.free_port import free_port
from tests.postgres_server import Postgres
from tests.ray_cluster import RayCluster
from tests.waiting import wait_for

WORKERS = ("first worker", "second worker")
SERVICES = ("first service", "second service")
BUCKET = "platform"

_NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream services {{
        server 127.0.0.1:{ports[0]} max_fails=1 fail_timeout=1s;
        server 127.0.0.1:{ports[1]} max_fails=1 fail_timeout=1s;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://services;
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_connect_timeout 1s;
            proxy_next_upstream error timeout http_502 http_503 non_idempotent;  # a search changes nothing
        }}
    }}
}}
"""


@dataclass
class Platform:
    """The running parts.

    Attributes:
        environment: Where S3 is, and Redis.
        settings: The lines of a corpus file that name store, Ray and engine.
        address: The proxy's address.
        prometheus: Prometheus's address; "" where it isn't installed.
    """

    folder: Path
    environment: Mapping[str, str]
    ray: RayCluster
    settings: str
    held: contextlib.ExitStack
    airflow: Airflow = field(init=False)
    address: str = ""
    prometheus: str = ""
    _ports: list[int] = field(default_factory=list)
    _services: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def start_airflow(self) -> None:
        """Start Airflow on a queue in Redis, with two workers of one task each, for the corpora in ``folder/corpora``."""
        queue = {
            "AIRFLOW__CELERY__BROKER_URL": self.environment["INSET_REDIS"],
            "AIRFLOW__CELERY__POOL": "solo",
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__PARALLELISM": "8",
            # A killed worker's task is tried again after half a minute in place of five.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "C_FORCE_ROOT": "1",
        }
        environment = {**self.environment, **ray_cluster.AUTH, **queue}
        self.airflow = self.held.enter_context(
            airflow_server.running(self.folder, parts=EVERY_PART, environment=environment)
        )
        for worker in WORKERS:
            self.start_worker(worker)

    def start_worker(self, name: str) -> None:
        """Start a Celery worker."""
        self.airflow.start(
            name, "celery", "worker", "--skip-serve-logs", "--celery-hostname", f"{name.replace(' ', '-')}@%h"
        )

    def start_services(self, corpus: str) -> None:
        """Start two query services of a corpus with a live version, the proxy before them, and Prometheus."""
        self._ports = [free_port(), free_port()]
        self.held.callback(self._end_services)
        for service in SERVICES:
            self.start_service(service, corpus)
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        file = self.folder / "nginx.conf"
        file.write_text(_NGINX.format(folder=self.folder, ports=self._ports, port=port))
        self._run("nginx", ["-p", str(self.folder), "-c", str(file)])
        wait_for(lambda: _answers(f"{self.address}/readyz"))
        if shutil.which("prometheus"):
            self._start_prometheus()

    def instance(self, service: str) -> str:
        """Return by what name Prometheus knows a service."""
        return f"127.0.0.1:{self._ports[SERVICES.index(service)]}"

    def start_service(self, name: str, corpus: str) -> None:
        """Start a query service, and wait until it is ready."""
        port = self._ports[SERVICES.index(name)]
        command = [sys.executable, "-m", "cli.main", "serve", corpus, "--port", str(port)]
        environment = {**os.environ, **self.environment, "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._services[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        wait_for(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))

    def kill_service(self, name: str) -> None:
        """Kill a query service."""
        self._services[name].kill()
        self._services.pop(name).wait()

    def _end_services(self) -> None:
        for service in self._services.values():
            service.terminate()
        for service in self._services.values():
            service.wait()

    def _start_prometheus(self) -> None:
        port = free_port()
        targets = [self.instance(service) for service in SERVICES]
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "inset", "static_configs": [{"targets": targets}]}],
        }
        file = self.folder / "prometheus.yml"
        file.write_text(json.dumps(config))
        data = f"--storage.tsdb.path={self.folder / 'prometheus'}"
        self._run("prometheus", [f"--config.file={file}", data, f"--web.listen-address=127.0.0.1:{port}"])
        self.prometheus = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(f"{self.prometheus}/api/v1/query?query=1"))

    def _run(self, program: str, arguments: list[str]) -> None:
        """Run a program until the platform ends."""
        with (self.folder / f"{program}.log").open("ab") as log:
            process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
        self.held.callback(process.wait)
        self.held.callback(process.send_signal, signal.SIGTERM)


def missing() -> list[str]:
    """Return what this machine lacks of the programs that a platform can't do without."""
    lacking = [program for program in ("nginx", "redis-server") if shutil.which(program) is None]
    return lacking + ([] if Postgres.installed() else ["postgresql"])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Platform]:
    """Run all but Airflow and the query services, which a platform starts once there are corpora."""
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(s3_server.running())
        environment = {
            "AWS_ACCESS_KEY_ID": "platform",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": s3,
            "AWS_SECRET_ACCESS_KEY": "platform",
            "INSET_REDIS": stack.enter_context(redis_server.running(folder)),
        }
        saved_environment = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        stack.callback(_restore, saved_environment)
        s3_client().create_bucket(Bucket=BUCKET)
        ray = stack.enter_context(ray_cluster.running(1, 1, 1, environment=environment))
        settings = f"store: s3://{BUCKET}/stores\nray: {{address: '{ray.client}'}}\n"
        if shutil.which("weaviate") or os.environ.get("WEAVIATE_URL"):
            server = stack.enter_context(weaviate_server.running(folder))
            settings += f"index: {{engine: weaviate, url: '{server.url}', grpc_port: {server.grpc_port}}}\n"
        yield Platform(folder, environment, ray, settings, stack)


def main() -> int:
    """Run a platform with the example corpus until it is interrupted."""
    if lacking := missing():
        say(
            f"not installed, and needed: {', '.join(lacking)}; on Debian: apt-get install nginx-light redis-server postgresql"
        )
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="inset-platform-"))
    try:
        with running(folder) as platform:
            _serve_examples(platform)
    except KeyboardInterrupt:
        say("ended")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _serve_examples(platform: Platform) -> None:
    examples = ROOT / "examples" / "manuals"
    corpus = platform.folder / "corpora" / "manuals.yaml"
    corpus.parent.mkdir()
    corpus_settings = f"source: {examples / 'pdfs'}\nquestions: {examples / 'questions.jsonl'}\nschedule: '@once'\n"
    corpus.write_text(f"name: manuals\n{corpus_settings}{platform.settings}")
    say("starting Airflow and its workers")
    platform.start_airflow()
    airflow = platform.airflow
    password = json.loads((platform.folder / "passwords.json").read_text())["ada"]
    say(f"Airflow       {airflow.address}   user ada, password {password}")
    dag = "dags/refresh_manuals"
    airflow.call(dag, {"is_paused": False}, "PATCH")
    (run,) = wait_for(lambda: airflow.call(f"{dag}/dagRuns")["dag_runs"])
    say("the schedule started a refresh")
    if airflow.ended(f"{dag}/dagRuns/{run['dag_run_id']}") != "success":
        say(airflow.failures(f"{dag}/dagRuns/{run['dag_run_id']}"))
        return
    platform.start_services(str(corpus))
    say(f"Search page   {platform.address}/")
    say(f"Ray           {platform.ray.client}")
    if platform.prometheus:
        say(f"Prometheus    {platform.prometheus}")
    say("Ctrl-C ends all of it.")
    signal.pause()


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _restore(saved_environment: Mapping[str, str | None]) -> None:
    for name, value in saved_environment.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _answers(address: str) -> bool:
    try:
        fetch(address)
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
