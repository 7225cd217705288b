-- name: get_job
-- Reads one live job by its primary key.
SELECT
    jobs.id, jobs.queue, jobs.payload, jobs.claim_id IS NOT NULL, jobs.priority, jobs.run_at,
    jobs.expires_at, jobs.attempts, jobs.max_attempts, jobs.visibility_timeout,
    jobs.base_backoff, jobs.worker_id, jobs.claim_expires_at, jobs.schedule,
    jobs.scheduled_for, jobs.enqueued_at
FROM {schema}.jobs
WHERE jobs.id = %(id)s;

-- name: peek
-- Reads the first {limit} live jobs of a queue: those that wait in claim order, then those that
-- are held, by the lapse of their claims. The first are a range of jobs_ready in its own order;
-- what a sweep gave back stands in that range as well and is stepped over. The held ones are a range
-- of jobs_returned, what was given back, and one of jobs_claimed, all others, merged in their
-- order: only jobs whose claims lapse at one instant, those of one claim, are sorted by id.
(
    SELECT
        jobs.id, jobs.queue, jobs.payload, false, jobs.priority, jobs.run_at,
        jobs.expires_at, jobs.attempts, jobs.max_attempts, jobs.visibility_timeout,
        jobs.base_backoff, jobs.worker_id, jobs.claim_expires_at, jobs.schedule,
        jobs.scheduled_for, jobs.enqueued_at
    FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.claim_id IS NULL
    ORDER BY jobs.priority DESC, jobs.run_at, jobs.id
    LIMIT {limit}
)
UNION ALL
(
    SELECT
        held.id, held.queue, held.payload, held.is_held, held.priority, held.run_at,
        held.expires_at, held.attempts, held.max_attempts, held.visibility_timeout,
        held.base_backoff, held.worker_id, held.claim_expires_at, held.schedule,
        held.scheduled_for, held.enqueued_at
    FROM (
        (
            SELECT
                jobs.id, jobs.queue, jobs.payload, true, jobs.priority, jobs.run_at,
                jobs.expires_at, jobs.attempts, jobs.max_attempts, jobs.visibility_timeout,
                jobs.base_backoff, jobs.worker_id, jobs.claim_expires_at, jobs.schedule,
                jobs.scheduled_for, jobs.enqueued_at
            FROM {schema}.jobs
            WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.claim_id IS NOT NULL
            ORDER BY jobs.claim_expires_at, jobs.id
            LIMIT {limit}
        )
        UNION ALL
        (
            SELECT
                jobs.id, jobs.queue, jobs.payload, jobs.claim_id IS NOT NULL, jobs.priority,
                jobs.run_at, jobs.expires_at, jobs.attempts, jobs.max_attempts,
                jobs.visibility_timeout, jobs.base_backoff, jobs.worker_id, jobs.claim_expires_at, jobs.schedule,
                jobs.scheduled_for, jobs.enqueued_at
            FROM {schema}.jobs
            WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
            ORDER BY jobs.claim_expires_at, jobs.id
            LIMIT {limit}
        )
    ) AS held (
        id, queue, payload, is_held, priority, run_at,
        expires_at, attempts, max_attempts, visibility_timeout,
        base_backoff, worker_id, claim_expires_at, schedule,
        scheduled_for, enqueued_at
    )
    ORDER BY held.claim_expires_at, held.id
    LIMIT {limit}
)
LIMIT {limit};

-- name: size
-- Counts the live jobs of a queue, in any state, exactly: index-only scans of jobs_ready and
-- jobs_claimed, so that it takes the longer the more there are.
SELECT
    (
        SELECT pg_catalog.count(*) FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
    ) + (
        SELECT pg_catalog.count(*) FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
    );

-- name: by_index
-- Has the next statement of the transaction planned for the indexes. Of a table that was
-- never analysed the server thinks that sorting all of it costs less than going through a
-- part of it in order.
SELECT
    pg_catalog.set_config('enable_seqscan', 'off', true),
    pg_catalog.set_config('enable_bitmapscan', 'off', true),
    pg_catalog.set_config('enable_sort', 'off', true),
    pg_catalog.set_config('jit', 'off', true);

-- name: stats
-- Counts the jobs of a queue by how they stand, and of each kind %(most)s rows at most: who
-- asks for a queue of millions gets an answer in the same time, and estimates (below) for
-- what has reached the limit.
--
-- levels walks the distinct priorities as the claim does, so that jobs delayed at a high
-- priority are not stepped over. due is an index-only scan of jobs_ready; waiting has to
-- read the rows of the jobs for their attempts; lapsed and running are ranges of
-- jobs_claimed, expired is one of jobs_expiring, dead one of dead_jobs_by_death.
-- An expired job counts as nothing, and so does a lapsed one that no claim will get: they
-- are dead letters that no claim has swept yet.
WITH RECURSIVE levels (priority) AS (
    (
        SELECT jobs.priority FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
        ORDER BY jobs.priority DESC
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT jobs.priority FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.priority < levels.priority
        ORDER BY jobs.priority DESC
        LIMIT 1
    )
    FROM levels
    WHERE levels.priority IS NOT NULL
),
due AS (
    SELECT job.run_at
    FROM levels
    CROSS JOIN LATERAL (
        SELECT jobs.run_at FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
            AND jobs.priority = levels.priority
            AND jobs.run_at <= pg_catalog.statement_timestamp()
        ORDER BY jobs.run_at, jobs.id
        LIMIT %(most)s
    ) AS job
    LIMIT %(most)s
),
waiting AS (
    SELECT job.attempts, job.good
    FROM levels
    CROSS JOIN LATERAL (
        SELECT
            jobs.attempts,
            (jobs.expires_at <= pg_catalog.statement_timestamp()) IS NOT TRUE AS good
        FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
            AND jobs.priority = levels.priority
            AND jobs.run_at > pg_catalog.statement_timestamp()
        ORDER BY jobs.run_at, jobs.id
        LIMIT %(most)s
    ) AS job
    LIMIT %(most)s
),
waiting_count (looked_at, delayed, retrying) AS (
    SELECT
        pg_catalog.count(*),
        pg_catalog.count(*) FILTER (WHERE waiting.good AND waiting.attempts = 0),
        pg_catalog.count(*) FILTER (WHERE waiting.good AND waiting.attempts > 0)
    FROM waiting
),
expired AS (
    SELECT jobs.run_at FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.expires_at <= pg_catalog.statement_timestamp()
    ORDER BY jobs.expires_at
    LIMIT %(most)s
),
lapsed AS (
    SELECT
        jobs.run_at,
        jobs.attempts < jobs.max_attempts
            AND (jobs.expires_at <= pg_catalog.statement_timestamp()) IS NOT TRUE AS good
    FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
        AND jobs.claim_expires_at <= pg_catalog.statement_timestamp()
    ORDER BY jobs.claim_expires_at
    LIMIT %(most)s
),
running AS (
    SELECT FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
        AND jobs.claim_expires_at > pg_catalog.statement_timestamp()
    ORDER BY jobs.claim_expires_at
    LIMIT %(most)s
),
dead AS (
    SELECT FROM {schema}.dead_jobs
    WHERE dead_jobs.queue = %(queue)s
    ORDER BY dead_jobs.died_at DESC, dead_jobs.id DESC
    LIMIT %(most)s
),
oldest (run_at) AS (
    SELECT (
        SELECT jobs.run_at FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
            AND jobs.priority = levels.priority
            AND jobs.run_at <= pg_catalog.statement_timestamp()
            AND pg_catalog.isfinite(jobs.run_at)
            AND (jobs.expires_at IS NULL OR jobs.expires_at > pg_catalog.statement_timestamp())
        ORDER BY jobs.run_at, jobs.id
        LIMIT 1
    )
    FROM levels
    UNION ALL
    SELECT lapsed.run_at FROM lapsed WHERE lapsed.good AND pg_catalog.isfinite(lapsed.run_at)
)
SELECT
    (SELECT pg_catalog.count(*) FROM due),
    (
        SELECT pg_catalog.count(*) FROM expired
        WHERE expired.run_at <= pg_catalog.statement_timestamp()
    ),
    waiting_count.looked_at,
    waiting_count.delayed,
    waiting_count.retrying,
    (SELECT pg_catalog.count(*) FROM lapsed),
    (SELECT pg_catalog.count(*) FROM lapsed WHERE lapsed.good),
    (SELECT pg_catalog.count(*) FROM running),
    (SELECT pg_catalog.count(*) FROM dead),
    (
        SELECT EXTRACT(
            EPOCH FROM pg_catalog.statement_timestamp() - pg_catalog.min(oldest.run_at)
        )::pg_catalog.float8
        FROM oldest
    )
FROM waiting_count;

-- The estimates are the planner's, from the statistics that the server keeps of the table:
-- nothing is read for them. The planner takes conditions as independent of each other, so
-- that one which follows from another is left out here.

-- name: estimate_due
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.claimable
    AND jobs.run_at <= pg_catalog.statement_timestamp();

-- name: estimate_delayed
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.attempts = 0
    AND jobs.run_at > pg_catalog.statement_timestamp();

-- name: estimate_retrying
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.attempts > 0
    AND jobs.run_at > pg_catalog.statement_timestamp();

-- What a sweep gave back is in this one as well as among the due: to the planner whether a job is
-- claimable has nothing to do with the time of its claim.

-- name: estimate_lapsed
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.claim_expires_at <= pg_catalog.statement_timestamp();

-- name: estimate_running
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.claim_expires_at > pg_catalog.statement_timestamp();

-- name: estimate_dead
EXPLAIN (FORMAT JSON)
SELECT FROM {schema}.dead_jobs WHERE dead_jobs.queue = %(queue)s;
