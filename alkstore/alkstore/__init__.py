"""alkstore: durable queues, locks, schedules and a transactional outbox.

This package holds what every engine shares: the traits, the value types, the options and
their resolution, the errors and the runner threads. An application imports an engine,
`alkstore_postgres` for one, and types against the names below.
"""

from __future__ import annotations

from alkstore.arguments import Seconds
from alkstore.backoff import MAX_BACKOFF, retry_delay
from alkstore.codec import DEFAULT_MAX_PAYLOAD_BYTES, Codec, JsonCodec
from alkstore.errors import (
    AlkstoreError,
    CodecError,
    DatabaseError,
    DecodeError,
    EncodeError,
    InvalidConnection,
    InvalidName,
    InvalidOption,
    InvalidSpec,
    LeadershipLost,
    LockTimeout,
    NoTransaction,
    PayloadTooLarge,
    ReservedName,
    ScheduleQuarantined,
    SchemaError,
    SchemaOutdated,
    SchemaTooNew,
    StoreClosed,
    UnknownSchedule,
)
from alkstore.names import MAX_NAME_BYTES, RESERVED_PREFIX
from alkstore.options import EnqueueOptions, QueueOptions, ScheduleOptions
from alkstore.stop_token import SignalRegistration, StopToken
from alkstore.traits import (
    Delivery,
    Handler,
    JobHandle,
    Listener,
    LockHandle,
    Outbox,
    Queue,
    Runner,
    Scheduler,
    Store,
)
from alkstore.values import DeadJob, Job, QueueStats, RunnerHealth, Schedule, Wake

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_MAX_PAYLOAD_BYTES",
    "MAX_BACKOFF",
    "MAX_NAME_BYTES",
    "RESERVED_PREFIX",
    "AlkstoreError",
    "Codec",
    "CodecError",
    "DatabaseError",
    "DeadJob",
    "DecodeError",
    "Delivery",
    "EncodeError",
    "EnqueueOptions",
    "Handler",
    "InvalidConnection",
    "InvalidName",
    "InvalidOption",
    "InvalidSpec",
    "Job",
    "JobHandle",
    "JsonCodec",
    "LeadershipLost",
    "Listener",
    "LockHandle",
    "LockTimeout",
    "NoTransaction",
    "Outbox",
    "PayloadTooLarge",
    "Queue",
    "QueueOptions",
    "QueueStats",
    "ReservedName",
    "Runner",
    "RunnerHealth",
    "Schedule",
    "ScheduleOptions",
    "ScheduleQuarantined",
    "Scheduler",
    "SchemaError",
    "SchemaOutdated",
    "SchemaTooNew",
    "Seconds",
    "SignalRegistration",
    "StopToken",
    "Store",
    "StoreClosed",
    "UnknownSchedule",
    "Wake",
    "__version__",
    "retry_delay",
]
