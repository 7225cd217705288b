-- name: acquire
-- Takes the lease when it is free: never held, released, or lapsed on the store clock. The
-- answer is one row: the fencing token, or the seconds that the present holder has left
-- (NULL when the row is free but another transaction holds on to it). No row at all: somebody
-- stored the very first row at the same moment; ask again.
--
-- It waits for nobody. A transaction that proved its lease holds the row FOR KEY SHARE; the
-- row is skipped then, as held, however long that transaction takes.
-- Carried by locks_pkey.
WITH free AS MATERIALIZED (
    SELECT l.name
    FROM {schema}.locks AS l
    WHERE l.name = %(name)s::pg_catalog.text
      AND (l.owner IS NULL
           OR l.expires_at IS NULL
           OR NOT pg_catalog.isfinite(l.expires_at)
           OR l.expires_at <= pg_catalog.clock_timestamp())
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE {schema}.locks AS l
    SET owner = %(owner)s::pg_catalog.text,
        token = l.token + 1,
        acquired_at = pg_catalog.clock_timestamp(),
        expires_at = pg_catalog.clock_timestamp()
            + pg_catalog.make_interval(secs => %(ttl)s::pg_catalog.float8)
    FROM free
    WHERE l.name = free.name
    RETURNING l.token
), made AS (
    INSERT INTO {schema}.locks AS l (name, owner, token, acquired_at, expires_at)
    SELECT %(name)s::pg_catalog.text, %(owner)s::pg_catalog.text, 1,
           pg_catalog.clock_timestamp(),
           pg_catalog.clock_timestamp()
               + pg_catalog.make_interval(secs => %(ttl)s::pg_catalog.float8)
    WHERE NOT EXISTS (
        SELECT 1 FROM {schema}.locks AS present
        WHERE present.name = %(name)s::pg_catalog.text)
    ON CONFLICT (name) DO NOTHING
    RETURNING l.token
)
SELECT won.token, NULL::pg_catalog.float8 AS seconds_left
FROM (SELECT taken.token FROM taken UNION ALL SELECT made.token FROM made) AS won
UNION ALL
SELECT NULL,
       CASE WHEN l.owner IS NOT NULL AND pg_catalog.isfinite(l.expires_at)
            THEN EXTRACT(epoch FROM l.expires_at - pg_catalog.clock_timestamp())
                ::pg_catalog.float8
       END
FROM {schema}.locks AS l
WHERE l.name = %(name)s::pg_catalog.text
  AND NOT EXISTS (SELECT 1 FROM taken)
  AND NOT EXISTS (SELECT 1 FROM made);

-- name: renew
-- Moves the end of the lease, only while the row is this owner's and this token's: a lapsed
-- one that nobody took is, a taken one never again. Waits for nobody (lock_not_available
-- instead); a transaction that proved this lease is not in its way.
-- Carried by locks_pkey.
WITH mine AS MATERIALIZED (
    SELECT l.name
    FROM {schema}.locks AS l
    WHERE l.name = %(name)s::pg_catalog.text
      AND l.owner = %(owner)s::pg_catalog.text
      AND l.token = %(token)s::bigint
    FOR NO KEY UPDATE NOWAIT
)
UPDATE {schema}.locks AS l
SET expires_at = pg_catalog.clock_timestamp()
        + pg_catalog.make_interval(secs => %(ttl)s::pg_catalog.float8)
FROM mine
WHERE l.name = mine.name;

-- name: release
-- Frees the lock and wakes those who wait for it, under the conditions of renew. The row and
-- its token stay. One row comes back when it was freed, none when it was not ours.
-- Carried by locks_pkey.
WITH mine AS MATERIALIZED (
    SELECT l.name
    FROM {schema}.locks AS l
    WHERE l.name = %(name)s::pg_catalog.text
      AND l.owner = %(owner)s::pg_catalog.text
      AND l.token = %(token)s::bigint
    FOR NO KEY UPDATE NOWAIT
), freed AS (
    UPDATE {schema}.locks AS l
    SET owner = NULL, expires_at = NULL
    FROM mine
    WHERE l.name = mine.name
    RETURNING l.name
)
SELECT pg_catalog.pg_notify(%(channel)s::pg_catalog.text, freed.name)::pg_catalog.text
FROM freed;

-- name: release_silently
-- As release, without the wake: for a server whose notification queue is full.
WITH mine AS MATERIALIZED (
    SELECT l.name
    FROM {schema}.locks AS l
    WHERE l.name = %(name)s::pg_catalog.text
      AND l.owner = %(owner)s::pg_catalog.text
      AND l.token = %(token)s::bigint
    FOR NO KEY UPDATE NOWAIT
)
UPDATE {schema}.locks AS l
SET owner = NULL, expires_at = NULL
FROM mine
WHERE l.name = mine.name;

-- name: prove
-- One row when the lease is held now, by this owner and token, on the store clock. FOR KEY
-- SHARE keeps anybody from taking the lease before this transaction ends, and lets its own
-- holder renew it meanwhile. A row that is being taken at this moment is skipped: not proven.
-- Carried by locks_pkey.
SELECT l.token
FROM {schema}.locks AS l
WHERE l.name = %(name)s::pg_catalog.text
  AND l.owner = %(owner)s::pg_catalog.text
  AND l.token = %(token)s::bigint
  AND pg_catalog.isfinite(l.expires_at)
  AND l.expires_at > pg_catalog.clock_timestamp()
FOR KEY SHARE SKIP LOCKED;

-- name: seconds_left
-- For how long the present lease holds unless it is renewed; no row when the lock is free.
-- Carried by locks_pkey.
SELECT CASE WHEN pg_catalog.isfinite(l.expires_at)
            THEN GREATEST(EXTRACT(epoch FROM l.expires_at - pg_catalog.clock_timestamp()), 0)
                ::pg_catalog.float8
       END
FROM {schema}.locks AS l
WHERE l.name = %(name)s::pg_catalog.text AND l.owner IS NOT NULL;
