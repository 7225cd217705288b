"""Programs around the interpreter that let none of its threads run."""

from __future__ import annotations

import sys

_UWSGI = (
    "uWSGI runs without threads here, so the runner's threads advance during requests only; "
    "start uWSGI with --enable-threads"
)


def frozen_threads() -> str | None:
    """Return why the threads of this process do not advance, or ``None`` when they do.

    uWSGI up to 2.0.26 keeps the interpreter's lock between requests unless it was told to
    enable threads. No clock shows that from the inside: whoever asks is in a request, and
    during a request the threads catch up.
    """
    uwsgi = sys.modules.get("uwsgi")
    return _UWSGI if getattr(uwsgi, "has_threads", True) == 0 else None
