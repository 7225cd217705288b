-- name: lock
-- One migrator at a time for this schema; the lock ends with the transaction, so that it
-- works behind a pooler and a killed migrator leaves nothing.
SELECT pg_catalog.pg_advisory_xact_lock(%(key)s);

-- name: trusted_settings
-- The names in the migrations mean what PostgreSQL means by them, in this transaction, and no
-- time limit of the role's ends the wait for another migrator or the building of an index.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('lock_timeout', '0', true),
       pg_catalog.set_config('statement_timeout', '0', true);

-- name: encoding
SELECT pg_catalog.current_setting('server_encoding');

-- name: schema_exists
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_namespace WHERE pg_namespace.nspname = %(name)s::pg_catalog.name
);

-- name: create_schema
CREATE SCHEMA {schema};

-- name: migrations_exist
-- A table of that name that is somebody else's does not count.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    JOIN pg_catalog.pg_attribute ON pg_attribute.attrelid = pg_class.oid
    WHERE pg_namespace.nspname = %(schema)s::pg_catalog.name
        AND pg_class.relname = 'migrations'
        AND pg_attribute.attname = 'compatible_from'
);

-- name: create_migrations
CREATE TABLE {schema}.migrations (
    version integer NOT NULL,
    compatible_from integer NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    CONSTRAINT migrations_pkey PRIMARY KEY (version)
);

-- name: state
-- The schema's version, and the oldest code version that works with all of it.
SELECT pg_catalog.max(migrations.version), pg_catalog.max(migrations.compatible_from) FROM {schema}.migrations;

-- name: record
INSERT INTO {schema}.migrations (version, compatible_from, applied_at, name)
VALUES (%(version)s, %(compatible_from)s, pg_catalog.statement_timestamp(), %(name)s);
