-- name: now_and_row
-- The store clock and the schedule's row, locked; one row, with NULLs for a schedule that
-- does not exist. The clock is read after the lock was had, so that it is never behind a tick
-- that was waited for.
-- Carried by schedules_pkey.
WITH present AS MATERIALIZED (
    SELECT s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
           s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
           s.payload IS NOT NULL AS has_payload, s.payload
    FROM {schema}.schedules AS s
    WHERE s.name = %(name)s::pg_catalog.text
    FOR UPDATE
)
SELECT pg_catalog.clock_timestamp(),
       p.name, p.spec, p.queue, p.priority, p.expires, p.max_attempts, p.catch_up,
       p.starts_at, p.next_fire_at, p.last_fire_at, p.paused, p.skipped, p.quarantine,
       p.has_payload, p.payload
FROM (SELECT 1) AS one
LEFT JOIN present AS p ON true;

-- name: insert
-- Stores a new schedule. No row comes back when another session stored one of this name
-- first.
INSERT INTO {schema}.schedules AS s (
    name, spec, queue, payload, priority, expires, max_attempts, catch_up,
    starts_at, next_fire_at, created_at, updated_at
)
VALUES (
    %(name)s, %(spec)s, %(queue)s, %(payload)s, %(priority)s,
    %(expires)s::pg_catalog.float8, %(max_attempts)s, %(catch_up)s,
    %(starts_at)s::timestamp with time zone, %(next_fire_at)s,
    pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp()
)
ON CONFLICT (name) DO NOTHING
RETURNING s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
          s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
          s.payload IS NOT NULL, s.payload;

-- name: update
-- Registers a schedule anew: what was registered before is replaced, what has happened
-- (the last fire, the count of skipped boundaries, whether it is paused) stays, and damage
-- is mended.
-- Carried by schedules_pkey.
UPDATE {schema}.schedules AS s
SET spec = %(spec)s,
    queue = %(queue)s,
    payload = %(payload)s,
    priority = %(priority)s,
    expires = %(expires)s::pg_catalog.float8,
    max_attempts = %(max_attempts)s,
    catch_up = %(catch_up)s,
    starts_at = %(starts_at)s::timestamp with time zone,
    next_fire_at = %(next_fire_at)s,
    last_fire_at = %(last_fire_at)s::timestamp with time zone,
    paused = %(paused)s,
    skipped = %(skipped)s,
    quarantine = NULL,
    updated_at = pg_catalog.clock_timestamp()
WHERE s.name = %(name)s::pg_catalog.text
RETURNING s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
          s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
          s.payload IS NOT NULL, s.payload;

-- name: delete
-- Removes a schedule; one row when there was one.
-- Carried by schedules_pkey.
DELETE FROM {schema}.schedules AS s
WHERE s.name = %(name)s::pg_catalog.text;

-- name: all
-- Every schedule, by name (in the order of code points, whatever the server's collation).
SELECT s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
       s.payload IS NOT NULL, s.payload
FROM {schema}.schedules AS s
ORDER BY s.name COLLATE pg_catalog."C";

-- name: one
-- One schedule.
-- Carried by schedules_pkey.
SELECT s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
       s.payload IS NOT NULL, s.payload
FROM {schema}.schedules AS s
WHERE s.name = %(name)s::pg_catalog.text;

-- name: pause
-- Fires nothing for a schedule from now on; one row when there is such a one.
-- Carried by schedules_pkey.
UPDATE {schema}.schedules AS s
SET paused = true, updated_at = pg_catalog.clock_timestamp()
WHERE s.name = %(name)s::pg_catalog.text;

-- name: resume
-- Lets a paused schedule go on at the given boundary.
-- Carried by schedules_pkey.
UPDATE {schema}.schedules AS s
SET paused = false,
    next_fire_at = %(next_fire_at)s::timestamp with time zone,
    updated_at = pg_catalog.clock_timestamp()
WHERE s.name = %(name)s::pg_catalog.text;

-- name: unpause
-- Lets a damaged schedule be seen by the tick again, which will set it aside.
-- Carried by schedules_pkey.
UPDATE {schema}.schedules AS s
SET paused = false, updated_at = pg_catalog.clock_timestamp()
WHERE s.name = %(name)s::pg_catalog.text;

-- name: run_now
-- Stores one job of a schedule that belongs to no boundary, and returns its id.
-- Carried by schedules_pkey.
INSERT INTO {schema}.jobs (
    queue, payload, priority, run_at, expires_at, max_attempts,
    visibility_timeout, base_backoff, schedule, enqueued_at
)
SELECT
    s.queue, s.payload, s.priority, pg_catalog.statement_timestamp(),
    pg_catalog.statement_timestamp() + pg_catalog.make_interval(secs => s.expires),
    coalesce(s.max_attempts, %(max_attempts)s::integer),
    %(visibility_timeout)s::pg_catalog.float8, %(base_backoff)s::pg_catalog.float8,
    s.name, pg_catalog.statement_timestamp()
FROM {schema}.schedules AS s
WHERE s.name = %(name)s::pg_catalog.text
RETURNING id;

-- name: notify
-- Tells whoever listens for a mechanism; heard after the commit, gone with a rollback.
SELECT pg_catalog.pg_notify(%(channel)s::pg_catalog.text, %(mechanism)s::pg_catalog.text)
    ::pg_catalog.text;

-- name: limit
-- A time limit for the statements of the rest of this transaction, waits for locks included.
SELECT pg_catalog.set_config('statement_timeout', %(limit)s::pg_catalog.text, true);

-- name: judge
-- The store clock and every schedule, without the payloads, in no order.
SELECT pg_catalog.statement_timestamp(),
       s.name, s.spec, s.queue, s.priority, s.expires, s.max_attempts, s.catch_up,
       s.starts_at, s.next_fire_at, s.last_fire_at, s.paused, s.skipped, s.quarantine,
       s.payload IS NOT NULL
FROM {schema}.schedules AS s;
