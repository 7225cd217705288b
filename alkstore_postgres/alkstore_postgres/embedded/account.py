"""The account that the server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alkstore_postgres.embedded.errors import EmbeddedServerError

# An account that owns a real server's data comes last.
_CANDIDATES = ("nobody", "postgres")


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
        """Give *path* itself to the account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def require_way_to(self, path: Path) -> None:
        """Refuse a place that the account cannot come to.

        Raises:
            EmbeddedServerError: A folder above *path* is closed to it.
        """
        closed = self.closed_above(path)
        if closed is not None:
            msg = (
                f"PostgreSQL does not run as root, and the user with the number {self.uid}, as "
                f"which it runs instead, may not enter {closed}: choose a directory that "
                "everybody can come to"
            )
            raise EmbeddedServerError(msg)

    def closed_above(self, path: Path) -> Path | None:
        """Return a folder above *path* that the account may not enter, or ``None``."""
        if self.uid is None:
            return None
        for folder in path.resolve().parents:
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


def choose_account(data: Path | None) -> Account:
    """Return the account for a server over *data*: the present one, unless that is root.

    For root it is the one that owns the data already (``None``: there are none), else one
    without privileges.

    Raises:
        EmbeddedServerError: It is root, and there is no account without privileges.
    """
    import pwd  # noqa: PLC0415 - not on every system, see `server`

    if os.geteuid() != 0:
        return Account(None, None)
    if data is not None and data.exists():
        owner = data.stat()
        if owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    msg = f"PostgreSQL does not run as root, and there is no user {' or '.join(_CANDIDATES)}"
    raise EmbeddedServerError(msg)
