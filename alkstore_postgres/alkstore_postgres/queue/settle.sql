-- Every statement here touches the rows of exactly the claims it is given, found by the primary
-- key: a claim's identity is compared in the same statement that writes.

-- part: free
-- What gives a job back writes.
claimable = true, claim_id = NULL, worker_id = NULL, claim_expires_at = NULL

-- part: still_held
-- The jobs that are still held by these claims. Rows are locked in the order of their ids, as by
-- every batch here, so that batches never deadlock. They are found by the primary key and compared
-- with a hash of the claims: not as a join, which a server that takes the table for empty would
-- begin at its wrong end.
SELECT jobs.id, jobs.claim_id FROM {schema}.jobs
WHERE jobs.id = ANY (%(ids)s::bigint[])
    AND ((jobs.id, jobs.claim_id) = ANY (
        SELECT claim.id, claim.claim_id
        FROM ROWS FROM (
            pg_catalog.unnest(%(ids)s::bigint[]),
            pg_catalog.unnest(%(claim_ids)s::pg_catalog.uuid[])
        ) AS claim (id, claim_id)
    )) IS TRUE
ORDER BY jobs.id
FOR UPDATE

-- name: ack
-- Finishes a job for good.
DELETE FROM {schema}.jobs WHERE jobs.id = %(id)s AND jobs.claim_id = %(claim_id)s;

-- name: retry
-- Gives a job back, due again after a delay.
UPDATE {schema}.jobs SET
    {free},
    run_at = pg_catalog.statement_timestamp() + pg_catalog.make_interval(secs => %(delay)s)
WHERE jobs.id = %(id)s AND jobs.claim_id = %(claim_id)s
RETURNING CASE WHEN %(wake)s THEN pg_catalog.pg_notify(%(channel)s, jobs.queue) END;

-- name: release
-- Gives a job back as it was before the claim, the attempt included.
UPDATE {schema}.jobs SET
    {free},
    attempts = jobs.attempts - 1
WHERE jobs.id = %(id)s AND jobs.claim_id = %(claim_id)s
RETURNING CASE WHEN %(wake)s THEN pg_catalog.pg_notify(%(channel)s, jobs.queue) END;

-- name: bury
-- Moves a job to the dead letters.
WITH gone AS (
    DELETE FROM {schema}.jobs
    WHERE jobs.id = %(id)s AND jobs.claim_id = %(claim_id)s
    RETURNING
        jobs.id, jobs.scheduled_for, jobs.enqueued_at, jobs.visibility_timeout,
        jobs.base_backoff, jobs.attempts, jobs.max_attempts, jobs.priority, jobs.queue,
        jobs.schedule, jobs.payload
)
INSERT INTO {schema}.dead_jobs (
    id, scheduled_for, enqueued_at, died_at, visibility_timeout, base_backoff,
    attempts, max_attempts, priority, queue, schedule, error, payload
)
SELECT
    gone.id, gone.scheduled_for, gone.enqueued_at, pg_catalog.statement_timestamp(),
    gone.visibility_timeout, gone.base_backoff, gone.attempts, gone.max_attempts,
    gone.priority, gone.queue, gone.schedule, %(error)s, gone.payload
FROM gone;

-- name: heartbeat
-- Holds a claim for another while. Losing it in a crash only means an earlier lapse, so
-- the commit does not wait for the disk.
UPDATE {schema}.jobs SET
    claimable = false,
    claim_expires_at = pg_catalog.statement_timestamp()
        + pg_catalog.make_interval(secs => %(extend)s)
WHERE jobs.id = %(id)s AND jobs.claim_id = %(claim_id)s
RETURNING pg_catalog.set_config('synchronous_commit', 'off', true);

-- name: ack_many
-- Finishes the jobs that are still held by these claims and returns these.
WITH held AS MATERIALIZED ({still_held})
DELETE FROM {schema}.jobs
WHERE jobs.id = ANY (ARRAY(SELECT held.id FROM held))
RETURNING jobs.id, jobs.claim_id;

-- name: heartbeat_many
-- Extends the claims that are still held, each by its visibility timeout or by the caller's
-- least time, whichever is longer; returns them.
WITH held AS MATERIALIZED ({still_held})
UPDATE {schema}.jobs SET
    claimable = false,
    claim_expires_at = pg_catalog.statement_timestamp()
        + pg_catalog.make_interval(
            secs => greatest(jobs.visibility_timeout, %(at_least)s::double precision)
        )
WHERE jobs.id = ANY (ARRAY(SELECT held.id FROM held))
RETURNING jobs.id, jobs.claim_id, pg_catalog.set_config('synchronous_commit', 'off', true);

-- name: release_many
-- Gives the jobs that are still held back as they were before the claims, the attempts included;
-- returns the claims. One wake is for all of them, and none when there are none.
WITH held AS MATERIALIZED ({still_held}),
released AS (
    UPDATE {schema}.jobs SET
        {free},
        attempts = jobs.attempts - 1
    WHERE jobs.id = ANY (ARRAY(SELECT held.id FROM held))
)
SELECT
    held.id, held.claim_id,
    (SELECT CASE WHEN %(wake)s THEN pg_catalog.pg_notify(%(channel)s, %(queue)s) END)
FROM held;

-- name: cancel
-- Deletes a live job of a queue, held or not.
DELETE FROM {schema}.jobs WHERE jobs.id = %(id)s AND jobs.queue = %(queue)s;
