// The texts of the statements for many rows: lists, conditions and rows as JSON.
#pragma once

#include <cstdint>
#include <outbox/spi/store.hpp>
#include <span>
#include <string>
#include <vector>

#include "mysql/driver.hpp"
#include "mysql/statements.hpp"
#include "sql/set_store.hpp"

namespace outbox::inline v0::mysql {

/// Adds an INSERT of these events up to its last row, which fails outside a transaction if it is `guarded` and the
/// server is a MariaDB. Returns the number of rows that fit into `most_bytes`, which is one at least.
std::size_t add_insert(sql_text& t, set_statements const& s, std::span<spi::insertion const> rows,
                       std::size_t most_bytes, bool guarded);
void add_insert(sql_text& t, set_statements const& s, sql::stored_event const& e, bool guarded);

/// Adds the statement that shows what a claim can take, and locks it.
void add_look(sql_text& t, set_statements const& s, spi::claim_request const& request, std::size_t window);

/// Shows a result of it to the claim. `now` is for a look that found nothing.
void show_candidates(MYSQL_RES* rows, instant now, sql::row_chooser& choose);

/// What a claim looks at in a row. Points into it.
[[nodiscard]] spi::claim_filter::candidate candidate_in(sql::row const& r);

/// Adds the statements that ask when to look again, each with a semicolon behind it. Returns how many they are. Their
/// answers go to `note_next_due`.
std::size_t add_look_ahead(sql_text& t, set_statements const& s, spi::claim_request const& request);
void note_next_due(spi::claim_request const& request, std::span<driver::answer const> answers, spi::claim_reply& reply);

/// Adds the condition that a row is one of these.
void add_numbers(sql_text& t, std::string const& column, std::vector<std::int64_t> numbers);

/// Adds the statement that settles a group, and the one that shows and locks the rows which that would change.
void add_settlement(sql_text& t, set_statements const& s, sql::settle_group const& g);
void add_owned(sql_text& t, set_statements const& s, sql::settle_group const& g);

/// Adds a statement with `[rows]` in it, which become a JSON text, or a list of texts.
void add_with_rows(sql_text& t, std::string_view statement, std::string const& rows,
                   std::initializer_list<sql::value> values = {});
void add_with_list(sql_text& t, std::string_view statement, std::span<std::string const> texts);

/// Adds a statement with `[rows]` in it, for rows of an id and a token.
void add_for_rows(sql_text& t, std::string const& statement, std::span<sql::optional_text const> ids,
                  std::span<sql::optional_text const> tokens, std::initializer_list<sql::value> values = {});

}  // namespace outbox::inline v0::mysql
