"""The PostgreSQL engine of alkstore.

`open` gives a store over a pool of its own, `PostgresStore` one over the application's
pool; `migrate` prepares the schema with a role that may.
"""

from __future__ import annotations

from alkstore_postgres.opening import migrate, open  # noqa: A004 - the product's own word
from alkstore_postgres.settings import OpenOptions, StoreOptions
from alkstore_postgres.store import PostgresStore

__version__ = "0.1.0"

__all__ = [
    "OpenOptions",
    "PostgresStore",
    "StoreOptions",
    "__version__",
    "migrate",
    "open",
]
