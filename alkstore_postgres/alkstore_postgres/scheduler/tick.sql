-- name: limits
-- Time limits for the rest of this transaction: the server ends a statement that takes too
-- long, and the whole session when its client stands still, so that a frozen leader holds on
-- to its rows, and to its lease, for a bounded time. The store clock comes with it.
SELECT pg_catalog.clock_timestamp(),
       pg_catalog.set_config('statement_timeout', %(limit)s::pg_catalog.text, true),
       pg_catalog.set_config('idle_in_transaction_session_timeout',
                             %(limit)s::pg_catalog.text, true);

-- name: due
-- Locks the due schedules that no other transaction holds, the longest due first. The store
-- clock comes with each row: it alone decides what is due. A row that another ticker has
-- advanced meanwhile is looked at again, and left. A later slice of a tick begins where the
-- one before it ended, and not behind what that one has left dead in the index.
-- Carried by schedules_due, in its order, without a sort.
SELECT pg_catalog.statement_timestamp(), s.ctid,
       s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, NULL::timestamp with time zone, s.paused, s.skipped,
       s.quarantine, s.payload IS NOT NULL
FROM {schema}.schedules AS s
WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
  AND s.next_fire_at <= pg_catalog.statement_timestamp()
  AND s.next_fire_at >= %(since)s::timestamp with time zone
ORDER BY s.next_fire_at
LIMIT %(rows)s::bigint
FOR UPDATE SKIP LOCKED;

-- name: missing
-- As due, for schedules without a next boundary: no clock ever reaches them.
-- Carried by schedules_due, which holds NULLs as well.
SELECT pg_catalog.statement_timestamp(), s.ctid,
       s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, NULL::timestamp with time zone, s.paused, s.skipped,
       s.quarantine, s.payload IS NOT NULL
FROM {schema}.schedules AS s
WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
  AND s.next_fire_at IS NULL
LIMIT %(rows)s::bigint
FOR UPDATE SKIP LOCKED;

-- name: beyond
-- As missing, for a next boundary that is infinite or lies after the year 9999.
-- Carried by schedules_due.
SELECT pg_catalog.statement_timestamp(), s.ctid,
       s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, NULL::timestamp with time zone, s.paused, s.skipped,
       s.quarantine, s.payload IS NOT NULL
FROM {schema}.schedules AS s
WHERE s.paused IS NOT TRUE AND s.quarantine IS NULL
  AND s.next_fire_at >= '9999-12-31 23:59:59.999999+00'::timestamp with time zone
LIMIT %(rows)s::bigint
FOR UPDATE SKIP LOCKED;

-- name: fire
-- Moves each schedule to its next boundary, and stores one job for each boundary that it fires,
-- in the order of the arrays, with the schedule's stamps. Jobs are stored only for schedules
-- that were moved. Queue and payload come from the row.
-- No index: the rows are where due found them, since this transaction has them locked. The
-- arrays stand in subqueries, so that the planner does not see how long they are and never reads
-- a large table from end to end for some of its rows.
WITH moved AS (
    UPDATE {schema}.schedules AS s
    SET next_fire_at = due.next_fire_at,
        last_fire_at = due.last_fire_at,
        skipped = due.skipped,
        updated_at = pg_catalog.statement_timestamp()
    FROM ROWS FROM (
        pg_catalog.unnest((SELECT %(places)s::pg_catalog.tid[])),
        pg_catalog.unnest((SELECT %(next_fire_ats)s::timestamp with time zone[])),
        pg_catalog.unnest((SELECT %(last_fire_ats)s::timestamp with time zone[])),
        pg_catalog.unnest((SELECT %(skipped)s::bigint[]))
    ) WITH ORDINALITY AS due (place, next_fire_at, last_fire_at, skipped, number)
    WHERE s.ctid = due.place
    RETURNING due.number, s.name, s.queue, s.payload, s.priority, s.expires, s.max_attempts
)
INSERT INTO {schema}.jobs (
    queue, payload, priority, run_at, expires_at, max_attempts,
    visibility_timeout, base_backoff, schedule, scheduled_for, enqueued_at
)
SELECT
    s.queue, s.payload, s.priority, pg_catalog.statement_timestamp(),
    pg_catalog.statement_timestamp() + pg_catalog.make_interval(secs => s.expires),
    coalesce(s.max_attempts, %(max_attempts)s::integer),
    %(visibility_timeout)s::pg_catalog.float8, %(base_backoff)s::pg_catalog.float8,
    s.name, fire.boundary, pg_catalog.statement_timestamp()
FROM ROWS FROM (
    pg_catalog.unnest((SELECT %(owners)s::bigint[])),
    pg_catalog.unnest((SELECT %(boundaries)s::timestamp with time zone[]))
) WITH ORDINALITY AS fire (owner, boundary, position)
JOIN moved AS s ON s.number = fire.owner
ORDER BY fire.position;

-- name: quarantine
-- Sets schedules aside, with the reason, until they are registered again.
-- The numbers of those that were set aside come back, from 1: a trigger may refuse silently.
-- No index: the rows are found where they are, as in fire. A damaged name finds nothing.
UPDATE {schema}.schedules AS s
SET quarantine = bad.reason,
    updated_at = pg_catalog.statement_timestamp()
FROM ROWS FROM (
    pg_catalog.unnest((SELECT %(places)s::pg_catalog.tid[])),
    pg_catalog.unnest((SELECT %(reasons)s::pg_catalog.text[]))
) WITH ORDINALITY AS bad (place, reason, number)
WHERE s.ctid = bad.place
RETURNING bad.number;

-- name: wakes
-- One wake for each queue of the array; heard after the commit, gone with a rollback.
SELECT pg_catalog.count(pg_catalog.pg_notify(%(channel)s::pg_catalog.text, fired.queue)::pg_catalog.text)
FROM pg_catalog.unnest(%(queues)s::pg_catalog.text[]) AS fired (queue);
