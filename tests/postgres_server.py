"""A PostgreSQL of a test's own, from Debian's package."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

# Debian's package of clients alone has the folder too.
_INITDB = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parts[-3]), default=None)
_SUPERUSER = "postgres"


class Postgres:
    """A server in a folder of its own, reached by a Unix socket there; it can be stopped and started again.

    Attributes:
        url: The address of its database, for SQLAlchemy with psycopg.
    """

    def __init__(self) -> None:
        assert _INITDB is not None
        self._bin = _INITDB.parent
        # The server refuses to run as root, and its own user may not enter the folders of root's tests.
        self._user = _SUPERUSER if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="inset-postgres-"))
        shutil.chown(self._folder, self._user or os.geteuid())
        self.url = f"postgresql+psycopg://{_SUPERUSER}@/postgres?host={self._folder}"

    @staticmethod
    def installed() -> bool:
        """Return whether there is a PostgreSQL to start."""
        return _INITDB is not None

    def __enter__(self) -> Self:
        self._run("initdb", "--username", _SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and return when it takes connections; nothing happens where it runs."""
        if not (self._folder / "data" / "postmaster.pid").exists():
            options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
            self._run("pg_ctl", "start", "--wait", "--log", str(self._folder / "log"), "--options", options)

    def stop(self) -> None:
        """End it, and every connection to it; nothing happens where it doesn't run."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "--wait", "--mode=immediate")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), *arguments, "--pgdata", str(self._folder / "data")]
        process = subprocess.run(
            command, user=self._user, group=self._user, cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr
