-- name: dead
-- Reads a page of dead letters, the latest first, behind a place in that order (none: from
-- the first). Carried by dead_jobs_by_death; the place is a row comparison, so that the
-- index goes there directly, also among thousands that died in one statement.
SELECT
    dead_jobs.id, dead_jobs.queue, dead_jobs.payload, dead_jobs.priority, dead_jobs.attempts,
    dead_jobs.max_attempts, dead_jobs.visibility_timeout, dead_jobs.base_backoff,
    dead_jobs.error, dead_jobs.schedule, dead_jobs.scheduled_for, dead_jobs.enqueued_at,
    dead_jobs.died_at
FROM {schema}.dead_jobs
WHERE dead_jobs.queue = %(queue)s
    AND (dead_jobs.died_at, dead_jobs.id) < (
        coalesce(%(died_at)s::timestamp with time zone, 'infinity'),
        %(id)s
    )
ORDER BY dead_jobs.died_at DESC, dead_jobs.id DESC
LIMIT %(limit)s;

-- name: requeue
-- Makes dead letters live again under their ids, due at once and with no attempts. Found by
-- the primary key (IS TRUE keeps the other index out of it), deleted where they were found:
-- a row that is locked stays there.
WITH chosen AS MATERIALIZED (
    SELECT dead_jobs.ctid FROM {schema}.dead_jobs
    WHERE dead_jobs.id = ANY (%(ids)s::bigint[]) AND (dead_jobs.queue = %(queue)s) IS TRUE
    ORDER BY dead_jobs.id
    FOR UPDATE
),
risen AS (
    DELETE FROM {schema}.dead_jobs
    WHERE dead_jobs.ctid = ANY (ARRAY(SELECT chosen.ctid FROM chosen))
    RETURNING
        dead_jobs.id, dead_jobs.scheduled_for, dead_jobs.enqueued_at,
        dead_jobs.visibility_timeout, dead_jobs.base_backoff, dead_jobs.max_attempts,
        dead_jobs.priority, dead_jobs.queue, dead_jobs.schedule, dead_jobs.payload
)
INSERT INTO {schema}.jobs (
    id, run_at, scheduled_for, enqueued_at, visibility_timeout, base_backoff,
    max_attempts, priority, queue, schedule, payload
)
SELECT
    risen.id, pg_catalog.statement_timestamp(), risen.scheduled_for, risen.enqueued_at,
    risen.visibility_timeout, risen.base_backoff, risen.max_attempts, risen.priority,
    risen.queue, risen.schedule, risen.payload
FROM risen
ORDER BY risen.id;

-- name: purge
-- Deletes a batch of dead letters, the oldest first. Carried by dead_jobs_by_death.
WITH chosen AS MATERIALIZED (
    SELECT dead_jobs.ctid FROM {schema}.dead_jobs
    WHERE dead_jobs.queue = %(queue)s
        AND dead_jobs.died_at <= pg_catalog.statement_timestamp()
            - pg_catalog.make_interval(secs => %(older_than)s)
    ORDER BY dead_jobs.died_at, dead_jobs.id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.dead_jobs
WHERE dead_jobs.ctid = ANY (ARRAY(SELECT chosen.ctid FROM chosen));

-- name: purge_ids
-- Deletes the named dead letters of a queue; locked in the order of their ids, as by
-- requeue, so that the two never deadlock.
WITH chosen AS MATERIALIZED (
    SELECT dead_jobs.ctid FROM {schema}.dead_jobs
    WHERE dead_jobs.id = ANY (%(ids)s::bigint[]) AND (dead_jobs.queue = %(queue)s) IS TRUE
        AND (
            dead_jobs.died_at <= pg_catalog.statement_timestamp()
                - pg_catalog.make_interval(secs => %(older_than)s)
        ) IS TRUE
    ORDER BY dead_jobs.id
    FOR UPDATE
)
DELETE FROM {schema}.dead_jobs
WHERE dead_jobs.ctid = ANY (ARRAY(SELECT chosen.ctid FROM chosen));
