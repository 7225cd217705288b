"""A pid file that a killed server left, with a number that belongs to a stranger by now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ON_LINUX: bool = sys.platform.startswith("linux")


def clear_stale_pid_file(data: Path) -> bool:
    """Remove the pid file in *data* when its process certainly is no server over *data*.

    Nobody is signalled. PostgreSQL removes such a file by itself when no process has its
    number; it refuses to start when one of the same user has, whatever that is.

    Returns:
        Whether the file is gone.
    """
    file = data / "postmaster.pid"
    try:
        pid = int(file.read_text(encoding="ascii", errors="replace").split()[0])
    except FileNotFoundError:
        return True
    except (OSError, ValueError, IndexError):
        return False
    if _may_be_server_of(pid, data):
        return False
    file.unlink(missing_ok=True)
    return True


def _may_be_server_of(pid: int, data: Path) -> bool:
    if _ON_LINUX:
        try:
            # A server lives in its data directory.
            return Path(f"/proc/{pid}/cwd").readlink().resolve() == data.resolve()
        except FileNotFoundError:
            return False
        except OSError:
            return True
    done = subprocess.run(  # noqa: S603 - our own arguments
        ["ps", "-p", str(pid), "-o", "command="],  # noqa: S607 - wherever it is
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return b"postgres" in done.stdout or b"postmaster" in done.stdout
