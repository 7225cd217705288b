"""Uses of the embedded server that every type checker must accept. Checked, never run."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import assert_type

import alkstore_postgres
from alkstore import AlkstoreError
from alkstore_postgres import embedded
from alkstore_postgres.embedded import EmbeddedServer, EmbeddedServerError


def starting() -> AlkstoreError | None:
    """In a private folder, or in a named one that others share."""
    assert_type(embedded.server(), EmbeddedServer)
    assert_type(embedded.server("data"), EmbeddedServer)
    try:
        embedded.server(Path("data"), bin_directory="bin", settings={"fsync": "off"})
    except EmbeddedServerError as error:
        return assert_type(error, EmbeddedServerError)
    return None


def using(server: EmbeddedServer) -> None:
    """It has URLs, and can be taken down."""
    assert_type(server.directory, Path)
    assert_type(server.port, int)
    assert_type(server.shared, bool)
    assert_type(server.url, str)
    assert_type(server.url_of("app"), str)
    assert_type(server.create_database("app"), str)
    server.halt()
    server.halt(mode="immediate")
    server.resume()
    server.restart("smart")
    server.stop()


def a_server_is_a_context_manager() -> None:
    """It is stopped at the end of the block."""
    with embedded.server() as server, alkstore_postgres.open(server.url):
        assert_type(server, EmbeddedServer)
