"""The search path is never trusted: whatever it puts before ``pg_catalog``, we mean that.

Field case B99.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import alkstore_postgres
from alkstore_postgres import PostgresStore
from alkstore_postgres.database.statements import Statements
from tests.support.carriers import Psycopg2Carrier, PsycopgCarrier
from tests.support.hostile import create_decoys
from tests.support.waiting import wait_until
from tests.support.workers import release_many


@pytest.fixture
def hostile(conninfo: str, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """A connection string whose sessions look into a schema of decoys first."""
    name = f"decoys_{secrets.token_hex(4)}"
    create_decoys(connection, name)
    yield make_conninfo(conninfo, options=f"-c search_path={name},pg_catalog")
    connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def test_the_decoys_bite(hostile: str) -> None:
    with psycopg.connect(hostile, autocommit=True) as connection:
        for bait in (
            "SELECT now()",
            "SELECT 1 = 1",
            "SELECT 'a'::pg_catalog.text < 'b'::pg_catalog.text",
            "SELECT pg_catalog.now() - pg_catalog.make_interval(secs => 1)",
            "SELECT min(x) FROM (VALUES (1)) AS v (x)",
            "SELECT '1'::uuid",
        ):
            with pytest.raises(psycopg.Error, match=r"decoy|point"):
                connection.execute(bait)


def test_everything_works_with_decoys_before_us(hostile: str, schema: str) -> None:
    with alkstore_postgres.open(hostile, schema) as store:
        live(store)
        for carrier in (PsycopgCarrier(hostile), Psycopg2Carrier(hostile)):
            store.enqueue_tx(carrier.tx, "seam", 1, delay=0, expires=60)
            store.notify_tx(carrier.tx, "seam")
            carrier.commit()
            carrier.close()
        assert store.queue("seam").size() == 2


def test_everything_works_with_an_empty_search_path(conninfo: str, schema: str) -> None:
    empty = make_conninfo(conninfo, options="-c search_path=")
    with alkstore_postgres.open(empty, schema) as store:
        live(store)


def live(store: PostgresStore) -> None:
    """Go through the lives of jobs, locks, schedules and messages."""
    live_jobs(store)
    live_others(store)


def live_jobs(store: PostgresStore) -> None:
    queue = store.queue("mail", visibility_timeout=60)
    queue.enqueue(0, delay=0.001, expires=60)
    queue.enqueue_many(range(5))
    wait_until(lambda: queue.stats().ready == 6)
    handles = queue.claim("w", 6)
    assert handles[0].heartbeat()
    assert handles[0].ack()
    assert queue.ack_many(handles[1:2]) == 1
    assert handles[2].retry("later", delay=0)
    assert release_many(queue, handles[3:4]) == 1
    assert queue.claim("w", 1)[0].release()
    assert handles[4].fail("no")
    assert handles[5].fail("no")
    assert queue.size() == 2
    dead = queue.dead()
    assert queue.requeue([dead[0].id]) == 1
    assert queue.purge([dead[1].id]) == 1
    queue.purge(older_than=0)
    assert store.get_job(handles[2].id) is not None
    assert queue.cancel(handles[2].id)
    assert len(queue.claim_wait("w", 10, timeout=1)) == 2
    brief = store.queue("brief", visibility_timeout=0.01, max_attempts=1)
    brief.enqueue(1)
    brief.claim("w")
    brief.enqueue(2, expires=0.01)
    wait_until(lambda: brief.claim("w") == [] and len(brief.dead()) == 2)


def live_others(store: PostgresStore) -> None:
    with store.lock("lock", ttl=10) as lock:
        assert lock.renew()
        assert store.try_lock("lock", ttl=10) is None
    store.schedule("s", "@every 1h", "fires", 1)
    store.schedule("s", "@every 1s", "fires", 1)
    store.run_now("s")
    assert store.pause("s")
    assert store.resume("s")
    assert len(store.schedules()) == 1
    runner = store.start_scheduler()
    wait_until(lambda: store.queue("fires").size() >= 2)
    assert runner.last_error is None
    assert runner.stop(5)
    assert store.get_schedule("s") is not None
    assert store.unschedule("s")
    outbox = store.outbox("events")
    outbox.enqueue(1)
    assert outbox.run_once("w", lambda _: None)
    assert outbox.stats().ready == 0
    listener = store.listen("channel")
    store.notify("channel")
    assert listener.wait(5) is not None
    listener.close()
    with store.transaction() as own:
        store.enqueue_tx(own, "mail", 1)


FILES = [
    (package, file)
    for package in ("lock", "queue", "scheduler", "schema", "wakes")
    for file in sorted(
        entry.name
        for entry in files(f"alkstore_postgres.{package}").iterdir()
        if entry.name.endswith(".sql") and not entry.name[0].isdigit()
    )
]


@pytest.mark.parametrize(("package", "file"), FILES)
def test_naming_the_operators_changes_no_meaning(
    connection: psycopg.Connection[Any], schema: str, store: PostgresStore, package: str, file: str
) -> None:
    """What is sent and what is written are the same to the server's parser."""
    module = f"alkstore_postgres.{package}"
    for name in (statements := Statements(module, file, schema)):
        sent = numbered(statements[name].decode())
        written = numbered(
            sql.SQL(blocks(module, file)[name])
            .format(schema=sql.Identifier(schema), limit=sql.SQL("%(limit)s"))
            .as_string(None)
        )
        if not written.startswith("CREATE"):
            assert meaning(connection, sent) == meaning(connection, written), name


@cache
def blocks(module: str, file: str) -> dict[str, str]:
    text = (files(module) / file).read_text(encoding="utf-8")
    plain = re.sub(r"(?m)^--(?! (?:name|part):).*$", "", text)
    pieces = re.split(r"^-- (name|part): (\w+)$", plain, flags=re.MULTILINE)
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        whole = body.strip().rstrip(";")
        for part, its in found["part"].items():
            whole = whole.replace(f"{{{part}}}", its)
        found[kind][name] = whole
    return found["name"]


def numbered(statement: str) -> str:
    """Write the named parameters as PostgreSQL does."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    explained = re.sub(r"^EXPLAIN \([^)]*\)\s*", "", statement)
    return re.sub(r"%\((\w+)\)s", number, explained).replace("%%", "%")


def meaning(connection: psycopg.Connection[Any], statement: str) -> str:
    """Return how the server writes down what it has understood."""
    with connection.transaction(force_rollback=True):
        plain = connection.cursor()
        plain.execute(f"PREPARE understood AS {statement}".encode())
        row = plain.execute(
            b"SELECT pg_catalog.array_to_string(parameter_types, ', ')"
            b" FROM pg_prepared_statements WHERE name = 'understood'"
        ).fetchone()
        assert row is not None
        plain.execute(
            f"CREATE FUNCTION pg_temp.understood({row[0]}) RETURNS void LANGUAGE sql"
            f" BEGIN ATOMIC {statement}; END".encode()
        )
        body = plain.execute(
            b"SELECT pg_catalog.pg_get_function_sqlbody(oid) FROM pg_proc"
            b" WHERE proname = 'understood'"
        ).fetchone()
        plain.execute(b"DEALLOCATE understood")
        assert body is not None
        return f"({row[0]}) {body[0]}"


UNQUALIFIED = re.compile(
    r"""
    (?<![\w."])(?!(?:ALL|AND|ANY|ARRAY|AS|BY|COALESCE|CONFLICT|EXISTS|EXTRACT|FILTER|FROM|GREATEST
      |IN|INTO|KEY|LEAST|NOT|ON|OR|RETURNING|SELECT|SET|VALUES|WHERE|OPERATOR)\s*\()
      [a-z_]+\(                                                       # a function
    | ::\s*(?!pg_catalog\.|bigint|boolean|double\ precision|integer|smallint
      |timestamp\ with\ time\ zone)\w+                                # a type
    | \bBETWEEN\b | \bLIKE\b | \bNULLIF\b | \bDISTINCT\ FROM\b | \bSIMILAR\b
    | \bIN\s*\( | \bUSING\s*\( | \bNATURAL\b                          # operators that hide
    | \bCASE\b(?!\s+WHEN)
    """,
    re.VERBOSE | re.IGNORECASE,
)


@pytest.mark.parametrize(("package", "file"), FILES)
def test_no_statement_looks_anything_up_along_the_path(package: str, file: str) -> None:
    for name, block in blocks(f"alkstore_postgres.{package}", file).items():
        if block.startswith("CREATE"):
            continue  # with a path of its own, see the migrator
        found = [match for match in UNQUALIFIED.findall(block) if not is_definition(match, block)]
        assert not found, f"{file}: {name}"


def is_definition(text: str, block: str) -> bool:
    """Whether it is the list of columns of a table or alias and no call."""
    name = re.escape(text.rstrip("("))
    places = rf"(?:AS|INTO|WITH|RECURSIVE|,|\}}\.)\s*{name}\s*\("
    return text.endswith("(") and re.search(places, block) is not None
