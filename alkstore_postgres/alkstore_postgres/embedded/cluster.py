"""Making a data directory."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.address import USER
from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.home import Home


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
    password = home.new_password()
    account.own(password)
    making.mkdir(mode=0o700)
    account.own(making)
    try:
        _initdb(making, password, binaries, account)
        making.rename(home.data)
    finally:
        for left in home.path.glob("initdb-*"):  # also what a killed attempt has left
            shutil.rmtree(left, ignore_errors=True)


def messages_in_english() -> dict[str, str]:
    """Return the environment for the server's programs: their messages are read here."""
    return {**os.environ, "LC_ALL": "C"}


def _initdb(data: Path, password: Path, binaries: Path, account: Account) -> None:
    done = subprocess.run(  # noqa: S603 - our own arguments
        [
            str(binaries / "initdb"),
            f"--pgdata={data}",
            f"--username={USER}",
            "--auth=password",
            f"--pwfile={password}",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=messages_in_english(),
        check=False,
        **account.arguments(),
    )
    if done.returncode != 0:
        output = done.stdout.decode("utf-8", "replace").strip()
        msg = f"initdb failed with the status {done.returncode}:\n{output}"
        raise EmbeddedServerError(msg)
