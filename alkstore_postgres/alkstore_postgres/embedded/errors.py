"""The error of the embedded server."""

from __future__ import annotations

from alkstore.errors import AlkstoreError


class EmbeddedServerError(AlkstoreError):
    """The embedded server cannot be started or reached; the message says why."""
