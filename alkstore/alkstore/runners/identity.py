"""Who claims, for people who look at rows."""

from __future__ import annotations

import os
import socket
import uuid


def default_worker_id() -> str:
    """Return a worker id that tells the host and the process, unique per runner.

    It proves nothing: each claim has an identity of its own.
    """
    host = "".join(one for one in socket.gethostname() if one.isprintable())[:60]
    return f"{host or 'host'}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
