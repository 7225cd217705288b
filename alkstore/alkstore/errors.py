"""The error tree.

Every error that alkstore raises on purpose is an `AlkstoreError`. Errors about an
argument are `ValueError`s as well, so that code which validates input the plain Python
way catches them. A message says what was given and what is allowed; it never shows a
password or a payload.
"""

from __future__ import annotations

from alkstore._typing import override


class AlkstoreError(Exception):
    """Base of every error that alkstore raises."""


class InvalidName(AlkstoreError, ValueError):
    """A mechanism's name breaks the naming rule (`alkstore.names`)."""


class ReservedName(InvalidName):
    """A name starts with the prefix that alkstore keeps for itself."""


class InvalidSpec(AlkstoreError, ValueError):
    """A schedule's spec is not of the form ``@every <n><unit>``."""


class InvalidOption(AlkstoreError, ValueError):
    """An option is unknown, of the wrong type, out of its range, or in conflict with another."""


class InvalidConnection(InvalidOption, TypeError):
    """What was given as a pool or a transaction is nothing that the engine can use.

    Another kind of object, an asynchronous connection, a pool that is not open or whose
    connections do not speak UTF-8.
    """


class CodecError(AlkstoreError, ValueError):
    """A payload could not be turned into bytes or back."""


class EncodeError(CodecError):
    """A value has no encoding; nothing was stored."""


class DecodeError(CodecError):
    """Stored bytes do not decode; they are still there as ``raw``."""


class PayloadTooLarge(AlkstoreError, ValueError):
    """An encoded payload is larger than the store's ``max_payload_bytes``."""


class LeadershipLost(AlkstoreError):
    """This runner is not, or no longer, the one that may fire schedules.

    Attributes:
        retry_after: Seconds until the present holder's lease ends unless it is renewed,
            measured on the store clock; ``None`` when it is not known.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnknownSchedule(AlkstoreError, KeyError):
    """There is no schedule of this name."""

    @override
    def __str__(self) -> str:
        # A KeyError shows the repr of its argument; this one has a message.
        return Exception.__str__(self)


class ScheduleQuarantined(AlkstoreError):
    """The schedule's row is damaged, so that it cannot be fired; registering it mends it."""


class LockTimeout(AlkstoreError):
    """A lock was not free within the time limit, or the wait was stopped.

    Also: the block of a handle was entered that holds the lock no longer, or for another block.
    """


class NoTransaction(AlkstoreError):
    """There is no transaction to join: a connection has none, or a block was entered before."""


class StoreClosed(AlkstoreError):
    """The store, or the pool that it was lent, was closed; open a new one."""


class SchemaError(AlkstoreError):
    """The database schema does not fit this version of alkstore."""


class SchemaOutdated(SchemaError):
    """The schema is older than this code needs; it has to be migrated first."""


class SchemaTooNew(SchemaError):
    """The schema was migrated by a newer, incompatible version of alkstore."""


class DatabaseError(AlkstoreError):
    """The database, or the way to it, failed; the driver's error is the ``__cause__``.

    Its message, and that of the cause, are what the server says first, without the details in
    which it quotes values: a traceback shows no payload.

    Attributes:
        sqlstate: The five-character SQLSTATE code, or ``None`` when the failure happened
            outside the server (a refused connection, a pool time-out).
        retryable: Whether the same call may succeed later without any change: lost
            connections, restarts, conflicts, exhausted resources.
    """

    def __init__(
        self, message: str, *, sqlstate: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.retryable = retryable
