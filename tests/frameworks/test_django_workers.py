"""A worker whose handlers use Django's models, inside a `TransactionTestCase`.

The user's story (field cases B91 and B129): Django closes the connections of its requests and of
the test's own thread. A worker's threads have no requests; what they leave open keeps the test
database from being dropped, and one that was cut fails every job that comes after. The decorator
that the page shows closes them, whatever `CONN_MAX_AGE` says.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.docs.test_pages_of_files import HOW_TO, run, write

TESTS = Path(__file__).parent / "django_workers.py"


@pytest.mark.parametrize("age", [0, 1, None])
def test_a_worker_leaves_no_connection_and_a_test_database_that_can_be_dropped(
    tmp_path: Path, database_url: str, age: int | None
) -> None:
    write(HOW_TO / "test-your-application.md", tmp_path)
    shutil.copy(TESTS, tmp_path / "shop" / "test_workers.py")
    lasting = f'from settings import *\nDATABASES["default"]["CONN_MAX_AGE"] = {age}\n'
    (tmp_path / "lasting.py").write_text(lasting, encoding="utf-8")
    command = "python -m django test shop.test_workers --settings lasting"
    assert "Ran 2 tests" in run(command, tmp_path, DATABASE_URL=database_url)
    with psycopg.connect(database_url) as connection:
        name = f"test_{conninfo_to_dict(database_url)['dbname']}"
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [name])
        assert found.fetchone() is None
