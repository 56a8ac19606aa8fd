-- outbox, for SQLite: what the table of a `keyed` node has besides 0001.sql and 0002.sql.
--
-- The lines of all keys: rows that are not DONE and count in the order of their key, by key and seq. Without it every
-- look of a claim at the row before another reads the whole table.

CREATE INDEX outbox_event_keyed ON outbox_event (CASE WHEN ordering_key <> '' THEN '=' || ordering_key WHEN aggregate_id <> '' THEN length(coalesce(aggregate_type, '__GLOBAL__')) || ':' || coalesce(aggregate_type, '__GLOBAL__') || aggregate_id END, seq) WHERE status <> 1 AND blocked IS NOT NULL;
