-- name: notify
-- Sends one wake on the schema's channel; heard when the transaction commits.
SELECT pg_catalog.pg_notify(%(channel)s::pg_catalog.text, %(name)s::pg_catalog.text)::pg_catalog.text;

-- name: notify_idle
-- For each of the names: looks whether one of its jobs waits, and sends a wake if so, unless
-- the job that the last wake was for waits as well: then nobody was idle for that one. A
-- name that is forced is woken in any case. Returns the names, a job that waits, and
-- whether a wake was sent. The lists of jobs are the texts of arrays.
--
-- One probe of jobs_pkey for each job, whatever the statistics say: a list of unknown length
-- may be planned as a scan of the table, and what asks for claimable rows as one of jobs_ready.
-- Nothing is written, so the commit flushes nothing, and the lock of NOTIFY is held for
-- microseconds.
SELECT
    asked.name,
    waiting.id,
    CASE
        WHEN asked.forced OR (waiting.id IS NOT NULL AND NOT EXISTS (
            SELECT FROM (
                SELECT jobs.claimable, jobs.claim_id, jobs.run_at FROM {schema}.jobs
                WHERE jobs.id = asked.woken::pg_catalog.int8
                OFFSET 0
            ) AS told
            WHERE told.claimable AND told.claim_id IS NULL
                AND told.run_at <= pg_catalog.statement_timestamp()
        ))
        THEN pg_catalog.pg_notify(%(channel)s::pg_catalog.text, asked.name)::pg_catalog.text
    END IS NOT NULL
FROM ROWS FROM (
    pg_catalog.unnest(%(names)s::pg_catalog.text[]),
    pg_catalog.unnest(%(jobs)s::pg_catalog.text[]),
    pg_catalog.unnest(%(forced)s::pg_catalog.bool[]),
    pg_catalog.unnest(%(woken)s::pg_catalog.text[])
) AS asked (name, jobs, forced, woken)
LEFT JOIN LATERAL (
    SELECT found.id
    FROM pg_catalog.unnest(asked.jobs::pg_catalog.int8[]) AS stored (id)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.claimable FROM {schema}.jobs
        WHERE jobs.id = stored.id
        OFFSET 0
    ) AS found
    WHERE found.claimable
    LIMIT 1
) AS waiting ON true;
