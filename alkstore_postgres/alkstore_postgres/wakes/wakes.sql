-- name: notify
-- Sends one wake on the schema's channel; heard when the transaction commits.
SELECT pg_catalog.pg_notify(%(channel)s::pg_catalog.text, %(name)s::pg_catalog.text)::pg_catalog.text;

-- name: notify_many
-- Sends one wake for each of the names, all in one transaction.
SELECT pg_catalog.pg_notify(%(channel)s::pg_catalog.text, woken.name)::pg_catalog.text
FROM pg_catalog.unnest(%(names)s::pg_catalog.text[]) AS woken (name);
