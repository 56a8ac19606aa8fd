-- outbox, for MariaDB and MySQL: what the table of a `keyed` node has besides 0002.sql.
--
-- The key of a row that counts in the order of its key, else NULL: the ordering key, else the aggregate; the length of
-- the aggregate type says where that ends. The column takes no room in the rows, only in its index. The nodes look there
-- for the row before a row, and for the one behind it. Run the statements one by one: each then lets programs write
-- while it works. On MySQL write utf8mb4_0900_bin instead of utf8mb4_nopad_bin.

ALTER TABLE outbox_event ADD COLUMN key_in_line varchar(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin AS (CASE WHEN status <> 1 AND blocked IS NOT NULL THEN CASE WHEN ordering_key <> '' THEN concat('=', ordering_key) WHEN aggregate_id <> '' THEN concat(char_length(coalesce(aggregate_type, '__GLOBAL__')), ':', coalesce(aggregate_type, '__GLOBAL__'), aggregate_id) END END) VIRTUAL;

ALTER TABLE outbox_event ADD INDEX outbox_event_keyed (key_in_line, seq);
