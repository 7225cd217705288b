"""PgBouncer before the test server, as an unprivileged user on a port of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.certificates import make_certificate
from tests.support.server import in_ci
from tests.support.waiting import wait_until

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")


def require_pgbouncer() -> str:
    """Return the path of the program; without it, skip the test, or fail it in CI."""
    if PGBOUNCER is None:
        reason = "pgbouncer is not installed (Debian: apt-get install pgbouncer)"
        if in_ci():
            pytest.fail(reason)
        pytest.skip(reason)
    return PGBOUNCER


@contextmanager
def pooler(
    conninfo: str, mode: str = "transaction", pool_size: int = 20, *, encrypted: bool = False
) -> Iterator[str]:
    """Run a pooler for the time of the block; yield the connection string through it.

    Args:
        conninfo: The server behind it, with the role that its connections have.
        mode: ``session`` or ``transaction``.
        pool_size: How many connections to the server it opens at most.
        encrypted: Its clients must speak TLS.
    """
    program = require_pgbouncer()
    known = conninfo_to_dict(conninfo)
    names = ("host", "port", "user", "password")
    server = " ".join(f"{name}={known[name]}" for name in names if name in known)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    unprivileged: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="alkstore-pooler-") as directory:
        settings = Path(directory) / "pgbouncer.ini"
        tls = ""
        if encrypted:
            certificate, key = make_certificate(Path(directory))
            key.chmod(0o644)
            tls = (
                f"client_tls_sslmode = require\nclient_tls_cert_file = {certificate}\n"
                f"client_tls_key_file = {key}\n"
            )
        settings.write_text(
            f"[databases]\n* = {server}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
            f"unix_socket_dir =\npool_mode = {mode}\ndefault_pool_size = {pool_size}\n"
            "max_client_conn = 500\nignore_startup_parameters = extra_float_digits\n" + tls,
            encoding="utf-8",
        )
        if os.geteuid() == 0:
            Path(directory).chmod(0o755)
            unprivileged = {"user": "nobody", "extra_groups": []}
        process = subprocess.Popen(
            [program, "-q", str(settings)], stderr=subprocess.DEVNULL, **unprivileged
        )
        try:
            wait_until(lambda: _accepts(port))
            sslmode = "require" if encrypted else "disable"
            yield make_conninfo(conninfo, host="127.0.0.1", port=port, sslmode=sslmode)
        finally:
            process.terminate()
            process.wait(10)


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False
