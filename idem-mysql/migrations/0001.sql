-- Version 1 of idem's tables in MySQL and MariaDB.
--
-- `MysqlStore::migrate` runs this text, statement by statement; each may be run again. By hand:
--
--     mysql DATABASE < 0001.sql
--
-- For another prefix, replace `idem_` first, as `migrate` does.

CREATE TABLE IF NOT EXISTS idem_schema (
    version INT NOT NULL,
    applied_at BIGINT NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary;

-- Times are microseconds since 1970 on the server's clock, and spans are microseconds. Names are
-- bytes, so that no collation folds them, no space at their end is dropped, and a NUL is like any
-- other byte.
CREATE TABLE IF NOT EXISTS idem_records (
    scope VARBINARY(255) NOT NULL,
    record_key VARBINARY(255) NOT NULL,
    operation VARBINARY(255) NOT NULL,
    scheme SMALLINT NOT NULL,
    digest VARBINARY(32) NOT NULL,
    attempt BIGINT NOT NULL,
    owner VARBINARY(16) NOT NULL,
    incarnation VARBINARY(16) NOT NULL,
    -- Counts the writes of one life: whoever changes a record changes what it has read.
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    retention BIGINT NULL,
    retention_after_completion BIGINT NULL,
    marks_begun TINYINT NOT NULL,
    locked_until BIGINT NULL,
    given_up TINYINT NULL,
    recovery_number BIGINT NULL,
    completed_at BIGINT NULL,
    expires_at BIGINT NULL,
    -- The earliest time at which a sweep may delete the record; fixed when it is inserted.
    sweep_after BIGINT NULL,
    input LONGBLOB NULL,
    recovery LONGBLOB NULL,
    reply LONGBLOB NULL,
    PRIMARY KEY (scope, record_key),
    -- Empty but for what is in progress.
    KEY idem_records_lapsed (locked_until, scope, record_key),
    KEY idem_records_sweep (sweep_after),
    CONSTRAINT idem_records_names CHECK (LENGTH(scope) > 0 AND LENGTH(record_key) > 0
        AND LENGTH(operation) > 0),
    CONSTRAINT idem_records_digest CHECK (LENGTH(digest) = 32 AND scheme BETWEEN 0 AND 255),
    CONSTRAINT idem_records_fence CHECK (LENGTH(owner) = 16 AND LENGTH(incarnation) = 16
        AND attempt BETWEEN 1 AND 4294967295),
    CONSTRAINT idem_records_retention CHECK (retention >= 0 AND retention_after_completion >= 0
        OR retention IS NULL AND retention_after_completion IS NULL AND sweep_after IS NULL),
    CONSTRAINT idem_records_recovery CHECK ((recovery_number IS NULL) = (recovery IS NULL)
        AND COALESCE(recovery_number, 1) BETWEEN 1 AND 4294967295),
    CONSTRAINT idem_records_state CHECK ((completed_at IS NULL) = (locked_until IS NOT NULL)
        AND (completed_at IS NULL) = (given_up IS NOT NULL)
        AND (completed_at IS NULL) = (reply IS NULL)
        AND (completed_at IS NULL OR input IS NULL AND recovery IS NULL)
        AND (expires_at IS NOT NULL) = (completed_at IS NOT NULL AND retention IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS idem_outbox (
    number BIGINT NOT NULL AUTO_INCREMENT,
    id VARBINARY(16) NOT NULL,
    topic VARBINARY(255) NOT NULL,
    ordering_key VARBINARY(255) NULL,
    headers LONGBLOB NOT NULL,
    payload LONGBLOB NOT NULL,
    created_at BIGINT NOT NULL,
    -- 0 waits, 1 is sent, 2 is dead.
    state TINYINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL,
    leased_until BIGINT NULL,
    lease_owner VARBINARY(16) NULL,
    settled_at BIGINT NULL,
    reason VARBINARY(255) NULL,
    -- Whether it was leased or is dead, and not sent: what may hold back others of its key.
    touched TINYINT NOT NULL DEFAULT 0,
    PRIMARY KEY (number),
    UNIQUE KEY idem_outbox_id (id),
    KEY idem_outbox_state (state, number),
    KEY idem_outbox_touched (touched, ordering_key, number),
    KEY idem_outbox_sent (state, settled_at),
    CONSTRAINT idem_outbox_fields CHECK (LENGTH(id) = 16 AND LENGTH(topic) > 0
        AND state BETWEEN 0 AND 2 AND failures >= 0 AND lapses >= 0
        AND (LENGTH(lease_owner) = 16 OR lease_owner IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Whoever pushes a message of an ordering key holds its row here until the transaction is over:
-- numbers are given before the commit, and must grow in the order of the commits.
CREATE TABLE IF NOT EXISTS idem_outbox_keys (
    ordering_key VARBINARY(255) NOT NULL,
    PRIMARY KEY (ordering_key)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary;

INSERT INTO idem_schema (version, applied_at)
SELECT 1, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FROM (SELECT COUNT(*) AS applied FROM idem_schema WHERE version = 1) present
WHERE present.applied = 0;
