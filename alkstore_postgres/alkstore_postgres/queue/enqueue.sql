-- part: columns
queue, payload, priority, run_at, expires_at,
max_attempts, visibility_timeout, base_backoff, enqueued_at

-- part: options
-- The values of the columns behind the payload.
%(priority)s,
coalesce(
    %(run_at)s::timestamp with time zone,
    pg_catalog.statement_timestamp() + pg_catalog.make_interval(secs => %(delay)s)
),
pg_catalog.statement_timestamp() + pg_catalog.make_interval(secs => %(expires)s),
%(max_attempts)s, %(visibility_timeout)s, %(base_backoff)s,
pg_catalog.statement_timestamp()

-- part: stored
INSERT INTO {schema}.jobs ({columns})
VALUES (%(queue)s, %(payload)s, {options})
RETURNING id

-- name: enqueue
-- Stores one job and returns its id.
{stored};

-- name: enqueue_and_wake
-- Stores one job and returns its id. Its wake is part of the transaction: heard after the
-- commit, gone with a rollback.
{stored}, pg_catalog.pg_notify(%(channel)s, %(queue)s);

-- name: enqueue_and_ask
-- The same, but there is a wake only when the job %(told)s is gone. Also returns whether there is.
-- One probe of jobs_pkey.
{stored},
    CASE
        WHEN NOT EXISTS (SELECT FROM {schema}.jobs AS other WHERE other.id = %(told)s)
        THEN pg_catalog.pg_notify(%(channel)s, %(queue)s)::pg_catalog.text
    END IS NOT NULL;

-- name: enqueue_many
-- Stores one job for each payload of the array and returns the ids in the array's order.
INSERT INTO {schema}.jobs ({columns})
SELECT %(queue)s, item.payload, {options}
FROM pg_catalog.unnest(%(payloads)s::pg_catalog.bytea[]) WITH ORDINALITY AS item (payload, position)
ORDER BY item.position
RETURNING id;

-- name: wake
-- Sends one wake; inside a transaction it is heard after the commit.
SELECT pg_catalog.pg_notify(%(channel)s, %(queue)s);
