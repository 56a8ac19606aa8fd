-- outbox, for PostgreSQL: what the table of a `keyed` node has besides 0001.sql and 0002.sql.
--
-- The rows that count in the order of their key, by key and seq. The key is the ordering key, else the aggregate; the
-- length of the aggregate type says where that ends. The nodes look into this index for the row before a row. While
-- programs write to the table, make the indexes with CREATE INDEX CONCURRENTLY.

CREATE INDEX outbox_event_keyed ON outbox_event ((CASE WHEN ordering_key <> '' THEN '=' || ordering_key WHEN aggregate_id <> '' THEN length(coalesce(aggregate_type, '__GLOBAL__'))::text || ':' || coalesce(aggregate_type, '__GLOBAL__') || aggregate_id END COLLATE "C"), seq) WHERE status <> 1 AND blocked IS NOT NULL;

-- Those of them that wait for another row. Every settlement looks here for what its rows held up, and mostly finds
-- nothing: what does not wait is not in this index.

CREATE INDEX outbox_event_blocked ON outbox_event ((CASE WHEN ordering_key <> '' THEN '=' || ordering_key WHEN aggregate_id <> '' THEN length(coalesce(aggregate_type, '__GLOBAL__'))::text || ':' || coalesce(aggregate_type, '__GLOBAL__') || aggregate_id END COLLATE "C"), seq) WHERE status IN (0, 2) AND blocked;
