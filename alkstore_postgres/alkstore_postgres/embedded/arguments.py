"""What can be asked of an embedded server; all else is refused before anything is done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from alkstore_postgres.embedded.errors import EmbeddedServerError

_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OUR_SETTINGS = ("port", "data_directory")
_STOP_MODES = ("smart", "fast", "immediate")


def check_mode(mode: object) -> None:
    """Refuse what is no way to stop a server."""
    if mode not in _STOP_MODES:
        msg = f"mode must be one of {', '.join(_STOP_MODES)}, not {mode!a}"
        raise EmbeddedServerError(msg)


def check_path(path: object, name: str) -> None:
    """Refuse what is neither a path nor ``None``; *name* is that of the argument."""
    if path is None:
        return
    if not isinstance(path, (str, Path)) or not str(path) or "\0" in str(path):
        msg = f"{name} must be a path or None, not {path!a}"
        raise EmbeddedServerError(msg)


def checked_settings(settings: object) -> dict[str, str]:
    """Return server settings by name, none that the embedded server chooses itself."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        msg = f"settings must map names to str values, not be of the type {type(settings).__name__}"
        raise EmbeddedServerError(msg)
    chosen = dict(settings)
    for name, value in chosen.items():
        if (
            not (isinstance(name, str) and _SETTING.fullmatch(name))
            or not isinstance(value, str)
            or "\0" in value
        ):
            msg = f"settings must map names to str values, {name!a} is not of that kind"
            raise EmbeddedServerError(msg)
        if name.lower() in _OUR_SETTINGS:
            msg = f"the setting {name!a} is chosen by the embedded server"
            raise EmbeddedServerError(msg)
    return chosen
