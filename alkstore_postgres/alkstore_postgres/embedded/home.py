"""The folder of an embedded server: its data, log and password, and who may touch them."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from alkstore_postgres.embedded.account import Account
from alkstore_postgres.embedded.address import why_no_answer
from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.filelock import FileLock, is_locked

_LOCK = "lock"


class Home:
    """Where everything of one server is.

    Attributes:
        path: The folder.
        temporary: Whether it is removed at the end.
        data: PostgreSQL's data directory; when it exists, it is whole.
        log: What the server says.
        guard: Locked by every process of the server, so that a free one means none lives.
        programs: Copies of the server's programs, where it needs them.
        password_file: The superuser's password, for the server's account alone.
    """

    def __init__(self, path: Path, *, temporary: bool) -> None:
        self.path = path
        self.temporary = temporary
        self.data = path / "data"
        self.log = path / "server.log"
        self.guard = path / "guard"
        self.programs = path / "programs"
        self.password_file = path / "password"
        self._state = path / "running.json"

    @classmethod
    def make_temporary(cls, account: Account) -> Home:
        """Make a private folder in a place that *account* can come to."""
        places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]  # noqa: S108 - a fresh folder there
        for place in places:
            if account.closed_above(Path(place) / "x") is None:
                break
        else:
            place = places[0]
        path = Path(tempfile.mkdtemp(prefix="alkstore-", dir=place)).resolve()
        # The server's account has to come in; the data directory itself is private.
        path.chmod(0o711)
        return cls(path, temporary=True)

    @classmethod
    def open(cls, directory: Path | str) -> Home:
        """Use *directory*, made when it is not there.

        Raises:
            EmbeddedServerError: It holds something else.
        """
        # Without links: the folders above are looked at, and a link may stand in a closed one.
        path = Path(directory).resolve()
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            folder.chmod(0o755)  # whatever the umask: the server's account has to come in
        strangers = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        if strangers and _LOCK not in strangers:
            msg = (
                f"{path} is not empty and no directory of an embedded server: it holds "
                f"{', '.join(sorted(strangers)[:3])}"
            )
            raise EmbeddedServerError(msg)
        return cls(path, temporary=False)

    @property
    def password(self) -> str:
        """The password of the superuser: other users of the machine do not know it."""
        return self.password_file.read_text(encoding="ascii").strip()

    def make_password(self) -> None:
        """Write a fresh password."""
        self.password_file.unlink(missing_ok=True)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(f"{secrets.token_urlsafe(16)}\n", encoding="ascii")

    def announce(self, port: int) -> FileLock:
        """Tell all where the server of this process is, until the lock is closed.

        When this process ends in whatever way, the lock is free: its server, which may live
        for another moment, is not to be shared.
        """
        self.withdraw()  # a fresh file: who announced before may still hold that one
        lock = FileLock(self._state)
        self._state.write_text(json.dumps({"port": port}), encoding="ascii")
        return lock

    def withdraw(self) -> None:
        """Take back what was announced."""
        self._state.unlink(missing_ok=True)

    def running_port(self) -> int | None:
        """Return where the server of a living owner answers; ``None``: nowhere."""
        if not is_locked(self._state):
            return None
        try:
            port = json.loads(self._state.read_text(encoding="ascii"))["port"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        if why_no_answer(port, self.password, self.data) is not None:
            return None
        # Once more: an owner that is being killed may have held it until now.
        return int(port) if is_locked(self._state) else None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all others, in any thread or process, from starting or stopping here."""
        with contextlib.closing(FileLock(self.path / _LOCK)):
            yield

    def remove(self) -> None:
        """Remove a temporary folder with all that is in it."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
