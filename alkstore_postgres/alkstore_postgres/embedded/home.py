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
from alkstore_postgres.embedded.address import answers
from alkstore_postgres.embedded.errors import EmbeddedServerError

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
    """

    def __init__(self, path: Path, *, temporary: bool) -> None:
        self.path = path
        self.temporary = temporary
        self.data = path / "data"
        self.log = path / "server.log"
        self.guard = path / "guard"
        self.programs = path / "programs"
        self._password = path / "password"
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
        path = Path(directory).absolute()
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
        return self._password.read_text(encoding="ascii").strip()

    def new_password(self) -> Path:
        """Write a fresh password; return its file."""
        self._password.unlink(missing_ok=True)
        self._password.touch(mode=0o600)
        self._password.write_text(f"{secrets.token_urlsafe(16)}\n", encoding="ascii")
        return self._password

    @property
    def port(self) -> int | None:
        """Where the server listened when it was last up; ``None`` when it was stopped."""
        try:
            port = json.loads(self._state.read_text(encoding="ascii"))["port"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return port if isinstance(port, int) else None

    @port.setter
    def port(self, port: int | None) -> None:
        if port is None:
            self._state.unlink(missing_ok=True)
        else:
            self._state.write_text(json.dumps({"port": port}), encoding="ascii")

    @property
    def running_port(self) -> int | None:
        """Where the server over this data answers at this moment; ``None``: nowhere."""
        port = self.port
        if port is not None and answers(port, self.password, self.data):
            return port
        return None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all others, in any thread or process, from starting or stopping here."""
        try:
            import fcntl  # noqa: PLC0415 - where it is missing the error should say more
        except ImportError:
            msg = "the embedded server runs on Linux and macOS only"
            raise EmbeddedServerError(msg) from None

        with (self.path / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                # Said aloud: a child forked meanwhile holds a copy of the file and would
                # keep the lock for as long as it lives.
                fcntl.flock(file, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Remove a temporary folder with all that is in it."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
