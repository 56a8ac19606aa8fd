-- outbox, schema version 1, for SQLite.
--
-- Instants are text, 'YYYY-MM-DD HH:MM:SS.ffffff', UTC. Status: 0 NEW, 1 DONE, 2 RETRY, 3 DEAD.
-- A program in any language may insert rows with event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload,
-- headers, status, attempts, available_at and created_at; everything else has a default.

CREATE TABLE outbox_event (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again, not even after a purge
  event_id       VARCHAR(36)  NOT NULL UNIQUE,
  event_type     VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),                        -- NULL: __GLOBAL__
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  payload        TEXT NOT NULL,                      -- JSON; 'null' if the payload is in payload_bytes
  headers        TEXT,                               -- a JSON object of strings
  status         TINYINT NOT NULL DEFAULT 0,
  attempts       INT NOT NULL DEFAULT 0,             -- counted failures
  available_at   TEXT NOT NULL,                      -- not before this instant
  created_at     TEXT NOT NULL,                      -- when it happened, by its writer's clock: data only
  done_at        TEXT,                               -- when it became DONE or DEAD
  last_error     TEXT,
  locked_by      VARCHAR(128),                       -- the owner's token, new for every birth and every claim
  locked_at      TEXT,
  lease_until    TEXT,                               -- the owner's until this instant
  crashes        INT NOT NULL DEFAULT 0,             -- owners that vanished since the last settlement
  inserted_at    TEXT,                               -- when the row was inserted, by the store's clock; NULL: created_at
  ordering_key   VARCHAR(128),                       -- NULL: the aggregate
  progress       TEXT,                               -- which of several listeners are done
  content_type   VARCHAR(128),                       -- NULL: application/json
  payload_bytes  BLOB
);

-- Pending rows by the instant from which they can be claimed: what a claim costs depends on nothing else in the table.
CREATE INDEX outbox_event_due ON outbox_event (max(replace(available_at, 'T', ' '), coalesce(lease_until, ''))) WHERE status IN (0, 2);

-- Pending rows in a form that this library does not write, such as an instant with an offset. A claim puts them in form
-- first. Empty unless another program writes such rows.
CREATE INDEX outbox_event_foreign ON outbox_event (available_at) WHERE status IN (0, 2) AND NOT (typeof(event_id) = 'text' AND typeof(available_at) = 'text' AND available_at GLOB '???[0-9]-?[0-9]-?[0-9][ T]?[0-9]:?[0-9]:?[0-9].[0-9][0-9][0-9][0-9][0-9][0-9]');

-- Terminal rows by their end, for purge.
CREATE INDEX outbox_event_ended ON outbox_event (done_at) WHERE done_at IS NOT NULL;

-- Dead rows, of which there are few, for operators.
CREATE INDEX outbox_event_dead ON outbox_event (event_type) WHERE status = 3;

-- The nodes that work on this table, for tools.
CREATE TABLE outbox_node (
  incarnation VARCHAR(128) PRIMARY KEY,
  name        VARCHAR(128) NOT NULL,
  version     VARCHAR(32)  NOT NULL,
  mode        VARCHAR(16)  NOT NULL,
  lease_ms    INTEGER NOT NULL,
  held        INTEGER NOT NULL,
  lease_until TEXT NOT NULL
) WITHOUT ROWID;

-- schema_version, and whatever the table must remember about itself.
CREATE TABLE outbox_meta (
  name  VARCHAR(64) PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO outbox_meta (name, value) VALUES ('schema_version', '1');
