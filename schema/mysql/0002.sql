-- outbox, schema version 2, for MariaDB 10.6 and MySQL 8.0.14 or later. The first version that these databases had.
--
-- Status: 0 NEW, 1 DONE, 2 RETRY, 3 DEAD. A program in any language may insert rows with event_id, event_type,
-- aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at and created_at; everything
-- else has a default. All instants are UTC, whatever the time zone of the session. Those that nodes write are the
-- server's own.
--
-- The collation compares bytes and does not ignore spaces at the end. On MySQL write utf8mb4_0900_bin instead of
-- utf8mb4_nopad_bin; migrate() does.

CREATE TABLE IF NOT EXISTS outbox_event (
  seq            bigint NOT NULL AUTO_INCREMENT,
  event_id       varchar(36)  NOT NULL,
  event_type     varchar(128) NOT NULL,
  aggregate_type varchar(64),                      -- NULL: __GLOBAL__
  aggregate_id   varchar(128),
  tenant_id      varchar(64),
  payload        longtext NOT NULL,                -- JSON as text, byte for byte; 'null' if it is in payload_bytes
  headers        longtext,                         -- a JSON object of strings
  status         tinyint NOT NULL DEFAULT 0,
  attempts       int NOT NULL DEFAULT 0,           -- counted failures
  available_at   datetime(6) NOT NULL,             -- not before this instant
  created_at     datetime(6) NOT NULL,             -- when it happened, by its writer's clock: data only
  done_at        datetime(6),                      -- when it became DONE or DEAD
  last_error     text,
  locked_by      varchar(128),                     -- the owner's token, new for every birth and every claim
  locked_at      datetime(6),
  lease_until    datetime(6),                      -- the owner's until this instant
  crashes        int NOT NULL DEFAULT 0,           -- owners that vanished since the last settlement
  inserted_at    datetime(6) DEFAULT (utc_timestamp(6)), -- NULL: created_at
  ordering_key   varchar(128),                     -- NULL: the aggregate
  progress       longtext,                         -- which of several listeners are done
  content_type   varchar(128),                     -- NULL: application/json
  payload_bytes  longblob,
  blocked        tinyint(1) DEFAULT 0,             -- order of a key. 0: in line; 1: waits for another row; NULL: outside

  -- The instant from which a row can be claimed. NULL for rows that no claim looks at, so that what a claim costs
  -- depends on nothing else in the table.
  due_at datetime(6) AS (CASE WHEN status IN (0, 2) AND coalesce(blocked, 0) = 0 THEN greatest(available_at, coalesce(lease_until, available_at)) END) STORED,

  -- When a terminal row ended. A program that knows only the columns of the specification may have left done_at empty.
  ended_at datetime(6) AS (CASE WHEN status IN (1, 3) THEN coalesce(done_at, inserted_at, created_at) END) STORED,

  PRIMARY KEY (seq),
  UNIQUE KEY outbox_event_id (event_id),
  KEY outbox_event_due (due_at, seq),
  -- Terminal rows by their end, for purge; dead rows, for operators; and, because ended_at is NULL there, pending rows
  -- by seq, for an ordered node.
  KEY outbox_event_ended (status, ended_at, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- The nodes that work on this table, for tools.
CREATE TABLE IF NOT EXISTS outbox_node (
  incarnation varchar(128) NOT NULL PRIMARY KEY,
  name        varchar(128) NOT NULL,
  version     varchar(32)  NOT NULL,
  mode        varchar(16)  NOT NULL,
  lease_ms    bigint NOT NULL,
  held        bigint NOT NULL,
  lease_until datetime(6) NOT NULL,
  started_at  datetime(6) NOT NULL,                -- the first heartbeat, by the server's clock
  active      tinyint(1) NOT NULL DEFAULT 0,       -- 0: stands by for another node
  reason      text NOT NULL,                       -- why it is unhealthy or does not claim
  lock_key    text NOT NULL,                       -- the name of the dispatch lock that it holds
  done        bigint NOT NULL DEFAULT 0,           -- events that it settled as delivered
  failed      bigint NOT NULL DEFAULT 0,           -- counted failures
  dead        bigint NOT NULL DEFAULT 0,           -- events that it made DEAD
  erased      bigint NOT NULL DEFAULT 0,           -- rows that it deleted after delivery
  routes      longtext NOT NULL                    -- its routes, a JSON array
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- What operators did.
CREATE TABLE IF NOT EXISTS outbox_audit (
  id       bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at       datetime(6)  NOT NULL,                  -- when it began
  who      varchar(128) NOT NULL,
  verb     varchar(32)  NOT NULL,                  -- replay, cancel, ...
  filter   text   NOT NULL,                        -- which rows, as text
  reason   text   NOT NULL,
  matched  bigint NOT NULL,                        -- rows that matched before
  changed  bigint,                                 -- rows that were changed; NULL until it ends
  ended_at datetime(6)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- schema_version, table_id (which tells this table from every other), and what the table must remember about itself.
-- oldest_library: a library with a lower schema version must not work on the table. keyed: '1' if the table keeps an
-- order per key.
CREATE TABLE IF NOT EXISTS outbox_meta (
  name  varchar(64) NOT NULL PRIMARY KEY,
  value longtext NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

INSERT IGNORE INTO outbox_meta (name, value) VALUES ('table_id', uuid()), ('oldest_library', '2'), ('keyed', '0'), ('schema_version', '2');
