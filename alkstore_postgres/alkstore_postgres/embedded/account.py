"""The account that the server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alkstore_postgres.embedded.errors import EmbeddedServerError

_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """An account without privileges; ``None`` numbers: the present one serves.

    Attributes:
        uid: Its user number.
        gid: Its group number.
    """

    uid: int | None
    gid: int | None

    def arguments(self) -> dict[str, Any]:
        """Return what makes `subprocess` run a program as this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give *path*, and all that is in it, to the account."""
        if self.uid is None or self.gid is None or sys.platform == "win32":
            return
        os.chown(path, self.uid, self.gid)
        for folder, _, files in os.walk(path):
            os.chown(folder, self.uid, self.gid)
            for file in files:
                os.chown(Path(folder) / file, self.uid, self.gid, follow_symlinks=False)

    def require_way_to(self, path: Path) -> None:
        """Refuse a folder that the account cannot come to.

        Raises:
            EmbeddedServerError: A folder above *path* is closed to it.
        """
        closed = self.closed_above(path)
        if closed is not None:
            msg = (
                f"the server runs as the user with the number {self.uid}, which may not enter "
                f"{closed}: choose a directory that everybody can come to"
            )
            raise EmbeddedServerError(msg)

    def closed_above(self, path: Path) -> Path | None:
        """Return a folder above *path* that the account may not enter, or ``None``."""
        if self.uid is None:
            return None
        for folder in path.parents:
            status = folder.stat()
            if status.st_uid == self.uid:
                allowed = status.st_mode & stat.S_IXUSR
            elif status.st_gid == self.gid:
                allowed = status.st_mode & stat.S_IXGRP
            else:
                allowed = status.st_mode & stat.S_IXOTH
            if not allowed:
                return folder
        return None


def choose_account() -> Account:
    """Return the account for the server: the present one, unless that is root.

    Raises:
        EmbeddedServerError: It is root, and there is no account without privileges.
    """
    if sys.platform == "win32" or os.geteuid() != 0:
        return Account(None, None)
    import pwd  # noqa: PLC0415 - not on every platform

    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    msg = f"PostgreSQL does not run as root, and there is no user {' or '.join(_CANDIDATES)}"
    raise EmbeddedServerError(msg)


def reachable_binaries(binaries: Path, account: Account, copies: Path) -> Path:
    """Return a folder with the programs that *account* can come to.

    A virtual environment below a private home is closed to it: then the installation is
    copied into *copies*.
    """
    if account.closed_above(binaries / "postgres") is None:
        return binaries
    copy = copies / "programs"
    if not copy.exists():
        shutil.copytree(binaries.parent, copy, symlinks=True)
    return copy / binaries.name
