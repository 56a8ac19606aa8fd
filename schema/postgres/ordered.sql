-- outbox, for PostgreSQL: what the table of an `ordered` node has besides 0001.sql.
--
-- Pending rows by seq. Without it a claim in order reads and sorts all that is pending. While programs write to the
-- table, make it with CREATE INDEX CONCURRENTLY.

CREATE INDEX outbox_event_in_order ON outbox_event (seq) WHERE status IN (0, 2);
