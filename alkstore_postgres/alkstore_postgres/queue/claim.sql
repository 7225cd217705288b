-- The parts that the claims share.

-- part: taken
-- What a claim writes.
claimable = false,
claim_id = %(claim_id)s,
worker_id = %(worker_id)s,
attempts = jobs.attempts + 1,
claim_expires_at = pg_catalog.statement_timestamp()
    + pg_catalog.make_interval(secs => jobs.visibility_timeout)

-- part: row
-- What a claim returns of a job.
jobs.id, jobs.payload, jobs.attempts, jobs.max_attempts, jobs.visibility_timeout,
jobs.base_backoff, jobs.enqueued_at, jobs.schedule, jobs.scheduled_for,
jobs.priority, jobs.run_at

-- part: due
-- What may be claimed now.
jobs.run_at <= pg_catalog.statement_timestamp()
AND (jobs.expires_at IS NULL OR jobs.expires_at > pg_catalog.statement_timestamp())

-- part: the_first
-- Of one priority level, whatever others have not taken.
ORDER BY jobs.run_at, jobs.id
LIMIT {limit}
FOR UPDATE SKIP LOCKED

-- part: overdue
-- Whether something has to be swept: probes of jobs_claimed and of jobs_expiring.
EXISTS (
    SELECT FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
        AND jobs.claim_expires_at <= pg_catalog.statement_timestamp()
)
OR EXISTS (
    SELECT FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.expires_at <= pg_catalog.statement_timestamp()
)

-- name: claim
-- Claims up to {limit} jobs of a queue in claim order and returns them. The first row
-- always comes: it tells whether something lapsed or expired has to be swept first (then
-- nothing was claimed), and, when nothing was claimed, in how many seconds the next job
-- becomes due or the next claim lapses. Each row tells whether there may be more to claim
-- behind the last one.
--
-- levels walks the distinct priorities, one probe of jobs_ready each, so that a million
-- jobs delayed at a high priority cost one step. Within a level the index gives the order
-- (run_at, id), and the scan stops at the first job that is not due. The two look-ups of
-- overdue are probes of jobs_claimed and jobs_expiring.
--
-- With a %(level)s it only looks at that priority, behind the place (%(after_run_at)s,
-- %(after_id)s) that an earlier claim has reached: see claim_places.py. Then it sweeps
-- nothing, and the first row's answers about the next due time mean nothing.
--
-- A claim that a crash of the server loses only means that the job is claimed again, so
-- its commit does not wait for the disk; the ack's does.
WITH RECURSIVE levels (priority) AS (
    SELECT coalesce(%(level)s::smallint, (
        SELECT jobs.priority FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
        ORDER BY jobs.priority DESC
        LIMIT 1
    ))
    UNION ALL
    SELECT (
        SELECT jobs.priority FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.priority < levels.priority
        ORDER BY jobs.priority DESC
        LIMIT 1
    )
    FROM levels
    WHERE levels.priority IS NOT NULL AND %(level)s::smallint IS NULL
),
overdue (found, relaxed) AS MATERIALIZED (
    SELECT
        NOT %(swept)s AND %(level)s::smallint IS NULL AND ({overdue}),
        pg_catalog.set_config('synchronous_commit', 'off', true)
),
picked AS MATERIALIZED (
    SELECT job.id, job.run_at, levels.priority
    FROM levels
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.run_at FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
            AND jobs.priority = levels.priority
            AND {due}
            AND (jobs.run_at, jobs.id) > (
                coalesce(%(after_run_at)s::timestamp with time zone, '-infinity'),
                coalesce(%(after_id)s::bigint, 0)
            )
        {the_first}
    ) AS job
    WHERE NOT (SELECT overdue.found FROM overdue)
    LIMIT {limit}
),
claimed AS (
    UPDATE {schema}.jobs SET {taken}
    WHERE jobs.id = ANY (ARRAY(SELECT picked.id FROM picked))
    RETURNING {row}
)
SELECT
    overdue.found,
    pg_catalog.date_part(
        'epoch', pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp()
    ),
    CASE WHEN claimed.id IS NULL THEN (
        SELECT pg_catalog.date_part(
            'epoch', pg_catalog.min(soon.at) - pg_catalog.statement_timestamp()
        )
        FROM (
            SELECT (
                SELECT jobs.run_at FROM {schema}.jobs
                WHERE jobs.queue = %(queue)s AND jobs.claimable
                    AND jobs.priority = levels.priority
                    AND jobs.run_at > pg_catalog.statement_timestamp()
                    AND pg_catalog.isfinite(jobs.run_at)
                ORDER BY jobs.run_at
                LIMIT 1
            )
            FROM levels
            UNION ALL
            (
                SELECT jobs.claim_expires_at FROM {schema}.jobs
                WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
                    AND pg_catalog.isfinite(jobs.claim_expires_at)
                ORDER BY jobs.claim_expires_at
                LIMIT 1
            )
        ) AS soon (at)
    ) END,
    claimed.id, claimed.payload, claimed.attempts, claimed.max_attempts,
    claimed.visibility_timeout, claimed.base_backoff, claimed.enqueued_at,
    claimed.schedule, claimed.scheduled_for, claimed.priority, claimed.run_at,
    (
        SELECT
            (
                SELECT true FROM {schema}.jobs
                WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.priority = last.priority
                    AND jobs.run_at <= pg_catalog.statement_timestamp()
                    AND (jobs.run_at, jobs.id) > (last.run_at, last.id)
                ORDER BY jobs.run_at
                LIMIT 1
            )
            OR EXISTS (SELECT FROM levels WHERE levels.priority < last.priority)
        FROM picked AS last
        OFFSET {limit} - 1
    )
FROM overdue
LEFT JOIN claimed ON true
ORDER BY claimed.priority DESC, claimed.run_at, claimed.id;

-- The short claims. They claim the jobs of one priority level, or nothing at all when something
-- has to be swept first, or when that level (for claim_first: the first job that nobody has
-- locked) has nothing due: then the full statement above has to look. The same indexes carry them, and what they claim is what that one would have claimed
-- first. For few jobs the server takes longer to set a statement up than to run it, so there is
-- as little of them as can be.

-- part: highest_level
-- The highest priority that a queue has.
SELECT jobs.priority FROM {schema}.jobs
WHERE jobs.queue = %(queue)s AND jobs.claimable
ORDER BY jobs.priority DESC
LIMIT 1

-- part: highest_due_level
-- The highest priority that has something due, whose first job says so: one probe of jobs_ready
-- for each level on the way to it.
WITH RECURSIVE levels (priority, is_due) AS (
    (
        SELECT jobs.priority, jobs.run_at <= pg_catalog.statement_timestamp() FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable
        ORDER BY jobs.priority DESC, jobs.run_at, jobs.id
        LIMIT 1
    )
    UNION ALL
    SELECT below.priority, below.run_at <= pg_catalog.statement_timestamp()
    FROM levels
    CROSS JOIN LATERAL (
        SELECT jobs.priority, jobs.run_at FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable AND jobs.priority < levels.priority
        ORDER BY jobs.priority DESC, jobs.run_at, jobs.id
        LIMIT 1
    ) AS below
    WHERE NOT levels.is_due
)
SELECT levels.priority FROM levels
WHERE levels.is_due

-- part: lazily
-- Never true; from then on the commit does not wait for the disk.
pg_catalog.set_config('synchronous_commit', 'off', true) IS NULL

-- part: short_row
-- What a short claim returns, in the place of what the full one does. Its commit does not wait
-- for the disk either.
{lazily},
pg_catalog.date_part(
    'epoch', pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp()
),
NULL::pg_catalog.float8,
{row}

-- name: claim_first
-- Claims the queue's first job that nobody else is about to take, when that is due. For one job. One
-- that is not due was locked all the same, which is written down, and need not wait for the disk.
UPDATE {schema}.jobs SET {taken}
WHERE jobs.id = ANY (ARRAY(
    SELECT first.id FROM (
        SELECT jobs.id, jobs.run_at FROM {schema}.jobs
        WHERE jobs.queue = %(queue)s AND jobs.claimable AND NOT (SELECT {overdue})
        ORDER BY jobs.priority DESC, jobs.run_at, jobs.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS first
    WHERE first.run_at <= pg_catalog.statement_timestamp() OR {lazily}
))
RETURNING {short_row};

-- name: claim_some
-- Claims up to {limit} jobs of the queue's highest priority and returns them, in any order. The full
-- statement would have claimed nothing else: where there are jobs of a lower priority, nothing is
-- claimed unless one job is enough. With that number written in, the server plans no look for them.
UPDATE {schema}.jobs SET {taken}
WHERE jobs.id = ANY (ARRAY(
    SELECT jobs.id FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.priority = ({highest_level})
        AND {due}
        AND NOT (SELECT {overdue} OR {limit} > 1 AND EXISTS (
            SELECT FROM {schema}.jobs
            WHERE jobs.queue = %(queue)s AND jobs.claimable
                AND jobs.priority < ({highest_level})
        ))
    {the_first}
))
RETURNING {short_row};

-- name: claim_some_below
-- The same of the highest priority that has something due.
UPDATE {schema}.jobs SET {taken}
WHERE jobs.id = ANY (ARRAY(
    SELECT jobs.id FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.priority = ({highest_due_level})
        AND {due}
        AND NOT (SELECT {overdue} OR {limit} > 1 AND EXISTS (
            SELECT FROM {schema}.jobs
            WHERE jobs.queue = %(queue)s AND jobs.claimable
                AND jobs.priority < ({highest_due_level})
        ))
    {the_first}
))
RETURNING {short_row};

-- name: claim_more
-- Claims {limit} jobs of the queue's highest priority, or nothing when there are not so many.
WITH picked AS MATERIALIZED (
    SELECT jobs.id FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.priority = ({highest_level})
        AND {due}
        AND NOT (SELECT {overdue})
    {the_first}
)
UPDATE {schema}.jobs SET {taken}
WHERE jobs.id = ANY (ARRAY(SELECT picked.id FROM picked))
    AND ((SELECT pg_catalog.count(*) FROM picked) >= {limit} OR {lazily})
RETURNING {short_row};

-- name: claim_more_below
-- The same of the highest priority that has something due.
WITH picked AS MATERIALIZED (
    SELECT jobs.id FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.priority = ({highest_due_level})
        AND {due}
        AND NOT (SELECT {overdue})
    {the_first}
)
UPDATE {schema}.jobs SET {taken}
WHERE jobs.id = ANY (ARRAY(SELECT picked.id FROM picked))
    AND ((SELECT pg_catalog.count(*) FROM picked) >= {limit} OR {lazily})
RETURNING {short_row};

-- name: sweep
-- Gives lapsed claims back to the ready index (their holders may still settle them until
-- somebody else takes them) and moves what is exhausted or expired to the dead letters.
-- Returns whether there may be more. Carried by jobs_claimed and jobs_expiring.
WITH lapsed AS MATERIALIZED (
    SELECT
        jobs.id,
        jobs.attempts >= jobs.max_attempts
            OR (jobs.expires_at <= pg_catalog.statement_timestamp()) IS TRUE AS over
    FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND NOT jobs.claimable
        AND jobs.claim_expires_at <= pg_catalog.statement_timestamp()
    ORDER BY jobs.claim_expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
expired AS MATERIALIZED (
    SELECT jobs.id FROM {schema}.jobs
    WHERE jobs.queue = %(queue)s AND jobs.claimable
        AND jobs.expires_at <= pg_catalog.statement_timestamp()
    ORDER BY jobs.expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
returned AS (
    UPDATE {schema}.jobs SET claimable = true
    WHERE jobs.id = ANY (ARRAY(SELECT lapsed.id FROM lapsed WHERE NOT lapsed.over))
),
gone AS (
    DELETE FROM {schema}.jobs
    WHERE jobs.id = ANY (ARRAY(
        SELECT lapsed.id FROM lapsed WHERE lapsed.over
        UNION ALL
        SELECT expired.id FROM expired
    ))
    RETURNING
        jobs.id, jobs.scheduled_for, jobs.enqueued_at, jobs.visibility_timeout,
        jobs.base_backoff, jobs.attempts, jobs.max_attempts, jobs.priority, jobs.queue,
        jobs.schedule, jobs.payload,
        CASE
            WHEN NOT jobs.claimable AND jobs.attempts >= jobs.max_attempts
            THEN 'max attempts exceeded'
            ELSE 'expired'
        END AS error
),
buried AS (
    INSERT INTO {schema}.dead_jobs (
        id, scheduled_for, enqueued_at, died_at, visibility_timeout, base_backoff,
        attempts, max_attempts, priority, queue, schedule, error, payload
    )
    SELECT
        gone.id, gone.scheduled_for, gone.enqueued_at, pg_catalog.statement_timestamp(),
        gone.visibility_timeout, gone.base_backoff, gone.attempts, gone.max_attempts,
        gone.priority, gone.queue, gone.schedule, gone.error, gone.payload
    FROM gone
)
SELECT
    (SELECT pg_catalog.count(*) FROM lapsed) >= %(batch)s
    OR (SELECT pg_catalog.count(*) FROM expired) >= %(batch)s;
