"""Making a data directory."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from pathlib import Path

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.address import USER
from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.home import Home
from alkstore_postgres.embedded.launching import launch


def initialize(home: Home, binaries: Path, account: Account) -> None:
    """Make the data directory of *home* unless it is there.

    It is made under another name first, so that one which is there is whole. Whoever calls
    is alone with *home*.

    Raises:
        EmbeddedServerError: It could not be made; the message holds what ``initdb`` said.
    """
    if (home.data / "PG_VERSION").exists():
        return
    if home.data.exists():
        msg = f"{home.data} exists and is no data directory of PostgreSQL"
        raise EmbeddedServerError(msg)
    making = home.path / f"initdb-{secrets.token_hex(4)}"
    home.make_password()
    account.own(home.password_file)
    making.mkdir(mode=0o700)
    account.own(making)
    try:
        _initdb(home, making, binaries, account)
        making.rename(home.data)
    finally:
        for left in home.path.glob("initdb-*"):  # also what a killed attempt has left
            shutil.rmtree(left, ignore_errors=True)


def _initdb(home: Home, data: Path, binaries: Path, account: Account) -> None:
    command = [
        str(binaries / "initdb"),
        f"--pgdata={data}",
        f"--username={USER}",
        "--auth=password",
        f"--pwfile={home.password_file}",
        "--encoding=UTF8",
        "--no-locale",
        "--no-sync",
    ]
    with launch(home, account, command, output=subprocess.PIPE, expendable=True) as launcher:
        said = launcher.stdout.read() if launcher.stdout is not None else b""
        status = launcher.wait()
    if status != 0:
        output = said.decode("utf-8", "replace").strip()
        msg = f"initdb failed with the status {status}:\n{output}"
        raise EmbeddedServerError(msg)
