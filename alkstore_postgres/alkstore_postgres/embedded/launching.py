"""Runs one of the server's programs beside a launcher, which sees to it that it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.home import Home


def launch(
    home: Home,
    account: Account,
    command: list[str],
    *,
    output: IO[bytes] | int,
    expendable: bool = False,
) -> subprocess.Popen[bytes]:
    """Start *command* and return its launcher (see `launcher`).

    The program ends with this process, and a temporary *home* is removed when this process
    was killed.

    Args:
        home: Where its guard is.
        account: Who it runs as.
        command: The program and its arguments.
        output: Where everything goes that it says.
        expendable: Whether it can be killed with all its children at any time.
    """
    order = {
        "parent": os.getpid(),
        "command": command,
        "guard": str(home.guard),
        "uid": account.uid,
        "gid": account.gid,
        "expendable": expendable,
        "remove": str(home.path) if home.temporary else None,
    }
    launcher = Path(__file__).with_name("launcher.py")
    return subprocess.Popen(  # noqa: S603 - our own arguments
        [sys.executable, "-I", "-S", str(launcher), json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=_environment(),
        # Ctrl-C is for the owner, who stops the server in good order.
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    # What is meant for clients of some server (PGDATESTYLE and others) would reach this one.
    # The messages are read here: in English.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}
