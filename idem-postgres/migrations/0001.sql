-- Version 1 of idem's tables in Postgres.
--
-- `PostgresStore::migrate` runs this text. By hand:
--
--     psql -v ON_ERROR_STOP=1 --single-transaction -f 0001.sql
--
-- For another schema or prefix, replace `public.` and `idem_` first, as `migrate` does.

CREATE TABLE public.idem_schema (
    version integer PRIMARY KEY,
    applied_at bigint NOT NULL
);

-- Times are microseconds since 1970 on the server's clock, and spans are microseconds. Names are
-- bytes, so that no collation folds them and a NUL is like any other byte.
CREATE TABLE public.idem_records (
    scope bytea NOT NULL CHECK (octet_length(scope) BETWEEN 1 AND 255),
    key bytea NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    operation bytea NOT NULL CHECK (octet_length(operation) BETWEEN 1 AND 255),
    scheme smallint NOT NULL CHECK (scheme BETWEEN 0 AND 255),
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    attempt bigint NOT NULL CHECK (attempt BETWEEN 1 AND 4294967295),
    owner bytea NOT NULL CHECK (octet_length(owner) = 16),
    incarnation bytea NOT NULL CHECK (octet_length(incarnation) = 16),
    created_at bigint NOT NULL,
    retention bigint CHECK (retention >= 0),
    retention_after_completion bigint CHECK (retention_after_completion >= 0),
    marks_begun boolean NOT NULL,
    locked_until bigint,
    given_up boolean,
    recovery_number bigint CHECK (recovery_number BETWEEN 1 AND 4294967295),
    completed_at bigint,
    expires_at bigint,
    -- The earliest time at which a sweep may delete the record; fixed when it is inserted, so
    -- that the index on it is not touched again.
    sweep_after bigint,
    input bytea,
    recovery bytea,
    reply bytea,
    CONSTRAINT idem_records_pkey PRIMARY KEY (scope, key),
    CHECK ((retention IS NULL) = (retention_after_completion IS NULL)),
    CHECK ((retention IS NULL) = (sweep_after IS NULL)),
    CHECK ((recovery_number IS NULL) = (recovery IS NULL)),
    CHECK ((completed_at IS NULL) = (locked_until IS NOT NULL)),
    CHECK ((completed_at IS NULL) = (given_up IS NOT NULL)),
    CHECK ((completed_at IS NULL) = (reply IS NULL)),
    CHECK (completed_at IS NULL OR (input IS NULL AND recovery IS NULL)),
    CHECK ((expires_at IS NOT NULL) = (completed_at IS NOT NULL AND retention IS NOT NULL))
) WITH (
    -- Room on each page for the new version of a row: heartbeats, recovery points and takeovers
    -- are HOT updates. See docs/postgres-plans.md.
    fillfactor = 70,
    -- A busy table is vacuumed after 2 % of it has changed, not after 20 %.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

-- Only what is in progress stands here: a handful of entries, however many records there are.
-- Its key never changes, so that only completion touches it.
CREATE INDEX idem_records_open ON public.idem_records (created_at) WHERE completed_at IS NULL;

CREATE INDEX idem_records_sweep ON public.idem_records (sweep_after) WHERE sweep_after IS NOT NULL;

CREATE TABLE public.idem_outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Numbers are given before the commit: a relay reads only what was written by transactions
    -- that are all over, so that a late commit cannot slip in behind it.
    written_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bytea NOT NULL UNIQUE CHECK (octet_length(id) = 16),
    topic bytea NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    ordering_key bytea CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
    headers bytea NOT NULL,
    payload bytea NOT NULL,
    created_at bigint NOT NULL,
    state smallint NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_attempt_at bigint NOT NULL,
    leased_until bigint,
    lease_owner bytea CHECK (octet_length(lease_owner) = 16)
);

CREATE INDEX idem_outbox_pending ON public.idem_outbox (next_attempt_at, seq) WHERE state = 0;

CREATE INDEX idem_outbox_order ON public.idem_outbox (ordering_key, seq) WHERE state <> 1;

INSERT INTO public.idem_schema (version, applied_at)
VALUES (1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
