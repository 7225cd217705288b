"""Opening a store, and migrating without one."""

from __future__ import annotations

import psycopg

from alkstore._typing import Unpack
from alkstore_postgres.database.errors import translated
from alkstore_postgres.schema.migrator import Migrator
from alkstore_postgres.settings import DEFAULT_SCHEMA, OpenOptions, check_conninfo, check_schema
from alkstore_postgres.store import PostgresStore, open_store


def open(  # noqa: A001 - the product's own word for it
    conninfo: str, schema: str = DEFAULT_SCHEMA, **options: Unpack[OpenOptions]
) -> PostgresStore:
    """Open a store over a pool of its own.

    Args:
        conninfo: A libpq connection string or URL.
        schema: The schema that holds alkstore's tables, unquoted; made when it is missing.
        **options: See `OpenOptions`.

    Raises:
        InvalidOption: Something is unknown or impossible; nothing was connected.
        DatabaseError: The database could not be reached, or a migration failed.
        SchemaOutdated: With ``migrate=False``: the schema is missing or too old.
        SchemaTooNew: Newer code has migrated it, beyond what this code works with.
        SchemaError: The server or its encoding is not supported.
    """
    return open_store(conninfo, schema, options)


def migrate(conninfo: str, schema: str = DEFAULT_SCHEMA) -> list[str]:
    """Create the schema or bring it up to date, with a role that may.

    Args:
        conninfo: A libpq connection string or URL.
        schema: The schema's name, unquoted.

    Returns:
        The names of the migrations that were applied; empty when it was up to date.

    Raises:
        InvalidOption: An argument is impossible.
        DatabaseError: The database could not be reached, or a migration failed; what
            failed left nothing behind.
        SchemaError: As `open`.
    """
    checked = check_schema(schema)
    where = check_conninfo(conninfo)
    with translated(), psycopg.connect(where, autocommit=True) as connection:
        return Migrator(connection, checked).migrate()
