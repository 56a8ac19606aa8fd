// Parameters of the statements for many rows: rows turned into arrays.
//
// Arrays point into the values that they were made of, which must outlive them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <outbox/spi/store.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/driver.hpp"
#include "postgres/statements.hpp"
#include "sql/set_store.hpp"

namespace outbox::inline v0::postgres {

using sql::optional_text;

[[nodiscard]] inline std::int64_t micros(std::chrono::microseconds t) noexcept { return t.count(); }

[[nodiscard]] inline statement make(std::string const& sql, std::initializer_list<parameter> values) {
  return {sql, parameters{std::span{values.begin(), values.size()}}};
}

/// Paused routes as a statement takes them: whole types, and types of one aggregate type.
class pause_lists {
 public:
  explicit pause_lists(std::vector<route_pause> const& pauses);
  [[nodiscard]] text_array types() const noexcept { return {types_}; }
  [[nodiscard]] text_array pairs() const noexcept { return {pairs_}; }

 private:
  std::vector<std::string> texts_;
  std::vector<optional_text> types_, pairs_;
};

/// The parameters of `array_statements::insert_one` for one event, and which of its shapes it needs.
struct insert_parameters {
  explicit insert_parameters(sql::stored_event const& e);
  insert_shape shape;
  std::vector<parameter> values;
};

/// Rows of one insert as columns, for `array_statements::insert_many`.
///
/// No element is NULL, because the arrays may go through a client that sends them as text, and NULL in such a text
/// depends on a setting of the session (array_nulls). An empty text stands for it: the statement knows which columns
/// are never empty otherwise. Bytes may be empty: they belong to rows with a content type.
class insert_columns {
 public:
  explicit insert_columns(std::span<spi::insertion const> rows);
  [[nodiscard]] std::size_t statement() const noexcept { return (rich_ ? 2U : 0U) + (delayed_ ? 1U : 0U); }
  [[nodiscard]] std::vector<parameter> values() const;

 private:
  void add(sql::stored_event const& e);

  std::deque<sql::stored_event> events_;  ///< The columns point into their headers.
  std::deque<std::string> instants_;
  std::vector<optional_text> id_, type_, aggregate_, aggregate_id_, payload_, created_, token_, at_, tenant_, headers_,
      key_, content_, bytes_;
  std::vector<std::int64_t> after_;
  std::int64_t lease_ = 0;
  bool delayed_ = false;
  bool rich_ = false;
};

/// The statement that shows what a claim can take.
[[nodiscard]] statement candidates(array_statements const& a, spi::claim_request const& request, std::size_t window);

/// Shows a result of `candidates` to the claim.
void show_candidates(PGresult* result, instant now, bool keyed, sql::row_chooser& choose);

/// The statement that shows what is behind rows that a claim takes, and what it shows.
[[nodiscard]] statement runs(array_statements const& a, sql::row_chooser const& choose);
void show_runs(PGresult* result, instant now, sql::row_chooser& choose);

/// What `array_statements::told` answers goes to a receipt, from entry `at` on.
[[nodiscard]] std::shared_ptr<insert_answer> answer_for(std::span<event const* const> events,
                                                        std::shared_ptr<spi::insert_receipt> receipt, std::size_t at);

/// The statements that ask when to look again. Their answers go to `note_next_due`.
[[nodiscard]] std::vector<statement> look_ahead(array_statements const& a, spi::claim_request const& request);
void note_next_due(spi::claim_request const& request, std::span<result_handle const> answers, spi::claim_reply& reply);

/// The statement that settles a group.
[[nodiscard]] statement settle_statement(array_statements const& a, sql::settle_group const& g);

}  // namespace outbox::inline v0::postgres
