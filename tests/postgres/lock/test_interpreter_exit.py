"""A script that forgets to close its store ends at once and without a word."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.timing import Control

SCRIPT = """
import sys
import alkstore_postgres

store = alkstore_postgres.open(sys.argv[1], sys.argv[2])
lock = store.try_lock("x", 60, keep_alive=True)
listener = store.listen("x")
for _ in range(10):
    store.queue("x").enqueue(1)
print("done", flush=True)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "store.close()"])
def test_a_script_with_a_kept_lock_and_a_listener_exits_at_once(
    conninfo: str, schema: str, ending: str
) -> None:
    """Field case B81."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(ending=ending), conninfo, schema],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with Control() as control, process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "done\n"
        took_longer = control.end_beside(process)
        assert process.returncode == 0
        assert took_longer < 1.5
        assert process.stderr.read() == ""
