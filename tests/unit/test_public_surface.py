"""What the core distribution shows, ships and imports (contract section 1)."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import inspect
import subprocess
import sys
import types
from pathlib import Path

import alkstore

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(alkstore.__file__).parent
NEEDED_BY_OLD_PYTHONS = {"typing_extensions"}

IMPORT_EVERYTHING = """
import importlib, pathlib, sys

before = set(sys.modules)  # what a .pth file brought in at the start
sys.path.insert(0, sys.argv[1])
import alkstore

root = pathlib.Path(alkstore.__file__).parents[1]
for file in (root / "alkstore").rglob("*.py"):
    name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    # What builds on pytest is for those who have it.
    if not name.startswith(("alkstore.testing.contract", "alkstore.testing.plugin")):
        importlib.import_module(name)
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - set(sys.stdlib_module_names) - {"alkstore"}))
"""


def run(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=True,
    )
    return done.stdout.strip()


def test_all_names_exactly_the_public_names() -> None:
    public = {
        name
        for name, value in vars(alkstore).items()
        if not name.startswith("_")
        and name != "annotations"
        and not isinstance(value, types.ModuleType)
    }
    assert set(alkstore.__all__) - {"__version__"} == public
    assert len(set(alkstore.__all__)) == len(alkstore.__all__)


def test_a_star_import_gives_all_of_them() -> None:
    script = (
        "from alkstore import *; import alkstore; print(set(alkstore.__all__) <= set(globals()))"
    )
    assert run("-c", script) == "True"


def test_the_contracts_names_are_public() -> None:
    contract = {
        *("Store", "Queue", "JobHandle", "LockHandle", "Outbox", "Listener", "Delivery"),
        *("StopToken", "Codec", "JsonCodec", "Runner", "Job", "Schedule", "Wake"),
    }
    assert contract <= set(alkstore.__all__)


def test_every_public_class_and_function_is_documented() -> None:
    for name in alkstore.__all__:
        member = getattr(alkstore, name)
        if inspect.isclass(member) or inspect.isfunction(member):
            assert inspect.getdoc(member), name


def test_the_typing_marker_is_shipped() -> None:
    assert importlib.resources.files("alkstore").joinpath("py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("alkstore") == alkstore.__version__


def test_the_distribution_asks_for_nothing_that_a_new_python_has() -> None:
    requirements = importlib.metadata.requires("alkstore") or []
    always = [text.replace("_", "-") for text in requirements if "extra ==" not in text]
    assert always == ["typing-extensions>=4.6; python-version < '3.12'"]


def test_nothing_third_party_is_imported() -> None:
    imported = set(run("-c", IMPORT_EVERYTHING, str(PACKAGE.parent)).split())
    assert imported <= (NEEDED_BY_OLD_PYTHONS if sys.version_info < (3, 12) else set())


if sys.version_info >= (3, 12):  # older ones need the back-port: the test above

    def test_a_new_python_needs_no_site_packages_at_all() -> None:
        assert run("-I", "-S", "-c", IMPORT_EVERYTHING, str(PACKAGE.parent)) == ""


def test_the_package_can_be_imported_from_the_root_of_the_repository() -> None:
    script = "import alkstore; print(alkstore.__file__); alkstore.StopToken"
    for cwd in (ROOT, ROOT / "alkstore"):
        assert Path(run("-c", script, cwd=cwd)) == PACKAGE / "__init__.py"
