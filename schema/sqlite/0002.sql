-- outbox, schema version 2, for SQLite: what it adds to a table of version 1.
--
-- A program that writes rows as for version 1 may go on: every new column has a default.

-- The order of a key. false: in line; true: waits for another row of its key, so claims skip it; NULL: outside the
-- order of its key.
ALTER TABLE outbox_event ADD COLUMN blocked BOOLEAN DEFAULT false;

-- What a node tells about itself at each heartbeat. started_at is NULL for a node whose library has version 1.
ALTER TABLE outbox_node ADD COLUMN started_at TEXT;                       -- the first heartbeat, by the store's clock
ALTER TABLE outbox_node ADD COLUMN active     BOOLEAN NOT NULL DEFAULT false; -- false: stands by for another node
ALTER TABLE outbox_node ADD COLUMN reason     TEXT NOT NULL DEFAULT '';   -- why it is unhealthy or does not claim
ALTER TABLE outbox_node ADD COLUMN lock_key   TEXT NOT NULL DEFAULT '';   -- the name of the dispatch lock that it holds
ALTER TABLE outbox_node ADD COLUMN done       INTEGER NOT NULL DEFAULT 0; -- events that it settled as delivered
ALTER TABLE outbox_node ADD COLUMN failed     INTEGER NOT NULL DEFAULT 0; -- counted failures
ALTER TABLE outbox_node ADD COLUMN dead       INTEGER NOT NULL DEFAULT 0; -- events that it made DEAD
ALTER TABLE outbox_node ADD COLUMN erased     INTEGER NOT NULL DEFAULT 0; -- rows that it deleted after delivery
ALTER TABLE outbox_node ADD COLUMN routes     TEXT NOT NULL DEFAULT '[]'; -- its routes, a JSON array

-- What operators did.
CREATE TABLE outbox_audit (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  at       TEXT NOT NULL,           -- when it began
  who      VARCHAR(128) NOT NULL,
  verb     VARCHAR(32)  NOT NULL,   -- replay, cancel, ...
  filter   TEXT NOT NULL,           -- which rows, as text
  reason   TEXT NOT NULL,
  matched  INTEGER NOT NULL,        -- rows that matched before
  changed  INTEGER,                 -- rows that were changed; NULL until it ends
  ended_at TEXT
);

-- Pending rows that are not blocked, by the instant from which they can be claimed.
CREATE INDEX outbox_event_ready ON outbox_event (max(available_at, coalesce(lease_until, ''))) WHERE status IN (0, 2) AND blocked IS NOT TRUE;

-- Pending rows in a form that this library does not write, such as an instant with a T or an offset. A claim puts them
-- in form first, so that the index of ready rows can compare them. Empty unless another program writes such rows.
CREATE INDEX outbox_event_odd ON outbox_event (available_at) WHERE status IN (0, 2) AND NOT (typeof(event_id) = 'text' AND typeof(available_at) = 'text' AND available_at GLOB '???[0-9]-?[0-9]-?[0-9] ?[0-9]:?[0-9]:?[0-9].[0-9][0-9][0-9][0-9][0-9][0-9]');

-- oldest_library: a library with a lower schema version must not work on the table. keyed: '1' if the table keeps an
-- order per key.
INSERT INTO outbox_meta (name, value) VALUES ('oldest_library', '1'), ('keyed', '0');
UPDATE outbox_meta SET value = '2' WHERE name = 'schema_version';

-- Only nodes of version 1 use these indexes. migrate() keeps them while one is live. A table of version 1 may lack the
-- second.
DROP INDEX outbox_event_due;
DROP INDEX IF EXISTS outbox_event_foreign;
