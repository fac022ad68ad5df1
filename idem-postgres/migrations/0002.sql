-- Version 2 of idem's tables in Postgres: what an outbox relay needs.
--
-- `PostgresStore::migrate` runs this text after that of version 1. By hand:
--
--     psql -v ON_ERROR_STOP=1 --single-transaction -f 0002.sql

-- `attempts` counts the deliveries that failed, `lapses` the leases that ran out since the last of
-- them. A push locks its ordering key until its transaction is over, so that numbers grow in the
-- order of the commits; which transaction wrote a message need not be known.
ALTER TABLE public.idem_outbox
    ADD COLUMN lapses integer NOT NULL DEFAULT 0 CHECK (lapses >= 0),
    ADD COLUMN reason bytea,
    ADD COLUMN sent_at bigint,
    ADD CONSTRAINT idem_outbox_sent_at CHECK ((state = 1) = (sent_at IS NOT NULL)),
    DROP COLUMN written_by;

-- Every message changes at least twice and then goes.
ALTER TABLE public.idem_outbox SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

DROP INDEX public.idem_outbox_pending;

DROP INDEX public.idem_outbox_order;

CREATE INDEX idem_outbox_waiting ON public.idem_outbox (seq) WHERE state = 0;

-- What may hold back the rest of its ordering key: a few, however many wait.
CREATE INDEX idem_outbox_touched ON public.idem_outbox (ordering_key, seq)
WHERE ordering_key IS NOT NULL
    AND (state = 2 OR (state = 0 AND (leased_until IS NOT NULL OR attempts > 0)));

CREATE INDEX idem_outbox_sent ON public.idem_outbox (sent_at, seq) WHERE state = 1;

CREATE INDEX idem_outbox_dead ON public.idem_outbox (seq) WHERE state = 2;

INSERT INTO public.idem_schema (version, applied_at)
VALUES (2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
