// What the texts of the statements have in common.
#pragma once

#include <string>
#include <string_view>

#include "sql/layout.hpp"

// The texts are templates of a layout: {event_id} is a column, {NEW} a status, {row} all columns of a row. [utf8] is
// the character set and collation of the table's texts.
//
// A change of rows that are not named by their key is two statements, in one text: the first reads which rows, without
// a lock, and the second locks them by the primary key, in its order, asking every condition again. Locking through
// another index would lock in another order than settlements do. In one statement, the server would lock what it reads:
// it would wait for every transaction that has inserted a row nearby.

#define PENDING(r) r "{status} IN ({NEW}, {RETRY})"
#define NO_OWNER "{locked_by} = NULL, {locked_at} = NULL, {lease_until} = NULL"
#define INSERTED_AT "coalesce({inserted_at}, {created_at})"
#define NOW "utc_timestamp(6)"
#define LATER(n) "(" NOW " + INTERVAL " n " MICROSECOND)"
#define EVERY_ROW " LIMIT 1000000000"

// The owner is a node of this library: it has a lease.
#define OURS "({locked_by} IS NOT NULL AND {lease_until} IS NOT NULL)"

// Clears the note that a row waits for another one. NULL stays NULL.
#define NO_NOTE "{blocked} = if({blocked}, 0, {blocked})"

// The key of the row `r`, as spi::key_of() writes it.
#define KEY(r)                                                                                                    \
  "(CASE WHEN " r "{ordering_key} <> '' THEN concat('=', " r "{ordering_key}) WHEN " r                            \
  "{aggregate_id} <> '' THEN concat(char_length(coalesce(" r "{aggregate_type}, '__GLOBAL__')), ':', coalesce(" r \
  "{aggregate_type}, '__GLOBAL__'), " r "{aggregate_id}) END)"

// The row `r` counts in the order of its key.
#define IN_LINE(r) r "{status} <> {DONE} AND " r "{blocked} IS NOT NULL"

// A table that is marked keyed keeps the DEAD rows that park a key.
#define NOT_PARKING \
  "({status} <> {DEAD} OR {blocked} IS NULL OR " KEY("") " IS NULL OR NOT EXISTS (SELECT 1 FROM {outbox_meta} WHERE " \
  "name = 'keyed' AND value = '1'))"

// The rows that a SELECT of seq names. Each number is an array of its own, so that a list which is longer than the
// server's limit is no JSON, instead of one that ends with another number.
#define CHOOSE(rows) "SELECT json_arrayagg(json_array(c.{seq})) INTO @outbox_rows FROM (" rows ") c; "
#define CHOSEN                                                                                                    \
  "JSON_TABLE(@outbox_rows, '$[*]' COLUMNS (n bigint PATH '$[0]')) c STRAIGHT_JOIN {outbox_event} t FORCE INDEX " \
  "(PRIMARY) "                                                                                                    \
  "ON t.{seq} = c.n"

// The same for a derived table in a SELECT, which reads it without a lock.
#define BY_KEY " c STRAIGHT_JOIN {outbox_event} t FORCE INDEX (PRIMARY) ON t.{seq} = c.{seq}"

// The instant from which the row `r` could be claimed if it were not blocked.
#define CLAIMABLE(r) "greatest(" r "{available_at}, coalesce(" r "{lease_until}, " r "{available_at}))"

// In the order of candidate_column.
#define CANDIDATE(r, claimable)                                                                                        \
  r "{seq}, {event_id}, {event_type}, coalesce({aggregate_type}, '__GLOBAL__'), " OURS                                 \
    ", {status} = {RETRY} OR {last_error} IS NOT NULL, {crashes}, " INSERTED_AT ", " claimable                         \
    ", length({event_id}) + length({event_type}) + coalesce(length({aggregate_id}), 0) + length({payload}) + "         \
    "coalesce(length({payload_bytes}), 0) + coalesce(length({headers}), 0), if(" OURS ", NULL, {locked_at}), if(" OURS \
    ", NULL, {locked_by}), " NOW

namespace outbox::inline v0::mysql {

/// Makes the marks of a statement about rows in line: [line:x] is the table as x, [key:x] the key of its row, or NULL.
/// `indexed`: the table has the column and the index of schema/mysql/keyed.sql. Without them the whole table is read.
[[nodiscard]] std::string in_line(std::string_view sql, bool indexed);

struct in_layout {
  sql::layout const& table;
  std::string utf8;  ///< CHARACTER SET … COLLATE …

  std::string operator()(std::string_view sql) const {
    auto text = table.text(sql);
    constexpr std::string_view mark = "[utf8]";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + utf8.size())) {
      text.replace(at, mark.size(), utf8);
    }
    return text;
  }
};

inline in_layout made_for(sql::layout const& table, std::string const& collation) {
  return {table, "CHARACTER SET utf8mb4 COLLATE " + collation};
}

}  // namespace outbox::inline v0::mysql
