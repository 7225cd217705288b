-- name: get_job
-- Reads one live job by its primary key.
SELECT
    jobs.id, jobs.queue, jobs.payload, jobs.claim_id IS NOT NULL, jobs.priority, jobs.run_at,
    jobs.expires_at, jobs.attempts, jobs.max_attempts, jobs.visibility_timeout,
    jobs.base_backoff, jobs.worker_id, jobs.claim_expires_at, jobs.schedule,
    jobs.scheduled_for, jobs.enqueued_at
FROM {schema}.jobs
WHERE jobs.id = %(id)s;

-- name: size
-- Counts the live jobs of a queue, in any state: index-only scans of jobs_ready and
-- jobs_claimed.
SELECT
    (
        SELECT pg_catalog.count(*) FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
    ) + (
        SELECT pg_catalog.count(*) FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
    );

-- name: stats
-- Counts the jobs of a queue by how they stand. A lapsed claim counts as ready, an expired
-- job as nothing: it is a dead letter that no claim has swept yet.
WITH live AS (
    SELECT
        jobs.run_at, jobs.attempts,
        jobs.claim_id IS NOT NULL
            AND jobs.claim_expires_at > pg_catalog.statement_timestamp() AS held
    FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s
        AND (
            NOT jobs.claimable
            OR jobs.expires_at IS NULL
            OR jobs.expires_at > pg_catalog.statement_timestamp()
        )
),
placed AS (
    SELECT
        live.run_at, live.attempts,
        CASE
            WHEN live.held THEN 'running'
            WHEN live.run_at <= pg_catalog.statement_timestamp() THEN 'ready'
            WHEN live.attempts > 0 THEN 'retrying'
            ELSE 'delayed'
        END AS place
    FROM live
)
SELECT
    pg_catalog.count(*) FILTER (WHERE placed.place = 'ready'),
    pg_catalog.count(*) FILTER (WHERE placed.place = 'delayed'),
    pg_catalog.count(*) FILTER (WHERE placed.place = 'retrying'),
    pg_catalog.count(*) FILTER (WHERE placed.place = 'running'),
    (SELECT pg_catalog.count(*) FROM {schema}.dead_jobs WHERE dead_jobs.queue = %(queue)s),
    EXTRACT(
        EPOCH FROM pg_catalog.statement_timestamp()
            - pg_catalog.min(placed.run_at) FILTER (WHERE placed.place = 'ready')
    )::pg_catalog.float8
FROM placed;
