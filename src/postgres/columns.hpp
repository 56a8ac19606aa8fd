// Rows turned into columns: the arrays that one statement takes for many of them. They point into what they were made
// of, which must outlive them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <outbox/spi/codecs.hpp>
#include "core/base/text.hpp"
#include "postgres/parameters.hpp"

namespace outbox::inline v0::postgres {

using optional_text = std::optional<std::string_view>;

inline optional_text or_nothing(std::string const& s) { return s.empty() ? optional_text{} : optional_text{s}; }

inline std::int64_t micros(std::chrono::microseconds t) { return t.count(); }

/// An event type and an aggregate type as one text, to the letter as NOT_PAUSED makes it of a row. The length, counted
/// in characters like the server's length(), says where the first ends: both names may have any character in them.
inline std::string pair_text(std::string const& event_type, std::string const& aggregate_type) {
  return std::to_string(core::utf8_length(event_type).value_or(0)) + ':' + event_type + aggregate_type;
}

/// What is paused as a statement takes it: whole types, and types of one aggregate type.
struct pause_lists {
  explicit pause_lists(std::vector<route_pause> const& pauses) {
    for (auto const& p : pauses) {
      if (!p.aggregate_type.empty()) texts.push_back(pair_text(p.event_type, p.aggregate_type));
    }
    for (auto const& p : pauses) {
      if (p.aggregate_type.empty()) types.emplace_back(p.event_type);
    }
    pairs.assign(texts.begin(), texts.end());
  }
  std::vector<std::string> texts;
  std::vector<optional_text> types, pairs;
};

/// Rows of one insert as columns. No element is NULL, because they may go through a client that sends arrays as text,
/// and NULL in such a text depends on a setting of the session (array_nulls). Empty stands for it; the statement knows
/// which columns are never empty otherwise. Bytes may be empty: they belong to rows with a content type.
class insert_columns {
 public:
  void add(spi::insertion const& i) {
    auto const& e = i.event->record();
    bool const json = e.kind == payload_kind::json;
    bool const at_an_instant = i.event->delayed() && e.available_at.has_value();
    auto const& headers = kept_.emplace_back(spi::encode_headers(i.event->headers()));
    id_.emplace_back(e.id);
    type_.emplace_back(e.type);
    aggregate_.emplace_back(e.aggregate.type);
    aggregate_id_.emplace_back(e.aggregate.id);
    payload_.emplace_back(json ? std::string_view{e.payload} : std::string_view{"null"});
    created_.emplace_back(kept_.emplace_back(utc_text(e.occurred_at)));
    token_.emplace_back(i.token);
    if (!i.token.empty()) lease_ = micros(i.lease);
    at_.emplace_back(at_an_instant ? std::string_view{kept_.emplace_back(utc_text(*e.available_at))}
                                   : std::string_view{});
    after_.push_back(micros(e.deliver_after.value_or(std::chrono::milliseconds{0})));
    tenant_.emplace_back(e.tenant);
    headers_.emplace_back(headers);
    key_.emplace_back(e.ordering_key);
    content_.emplace_back(json ? std::string_view{} : std::string_view{e.content_type});
    bytes_.emplace_back(json ? std::string_view{} : std::string_view{e.payload});
    delayed_ = delayed_ || at_an_instant || e.deliver_after.has_value();
    rich_ = rich_ || !json || !e.tenant.empty() || !headers.empty() || !e.ordering_key.empty();
  }
  [[nodiscard]] std::size_t statement() const noexcept { return (rich_ ? 2U : 0U) + (delayed_ ? 1U : 0U); }
  [[nodiscard]] std::vector<parameter> values() const {
    std::vector<parameter> all{
        text_array{id_},      text_array{type_},    text_array{aggregate_}, text_array{aggregate_id_},
        text_array{payload_}, text_array{created_}, text_array{token_},     lease_};
    if (delayed_) all.insert(all.end(), {text_array{at_}, integer_array{after_}});
    if (rich_) {
      all.insert(all.end(), {text_array{tenant_}, text_array{headers_}, text_array{key_}, text_array{content_},
                             blob_array{bytes_}});
    }
    return all;
  }

 private:
  std::vector<optional_text> id_, type_, aggregate_, aggregate_id_, payload_, created_, token_, at_, tenant_, headers_,
      key_, content_, bytes_;
  std::vector<std::int64_t> after_;
  std::int64_t lease_ = 0;
  bool delayed_ = false;
  bool rich_ = false;
  std::deque<std::string> kept_;  ///< What the columns point to and no event has.
};

/// Settlements of one outcome as columns, in the order of their ids.
struct settle_columns {
  void add(std::size_t index, spi::settlement const& s) {
    indexes.push_back(index);
    id.emplace_back(s.row.id);
    token.emplace_back(s.row.token);
    progress.push_back(or_nothing(s.progress));
    error.push_back(s.outcome == spi::outcome::defer ? or_nothing(s.error) : optional_text{s.error});
    delay.push_back(micros(s.delay));
    counted.push_back(s.counted);
  }
  std::vector<std::size_t> indexes;
  std::vector<optional_text> id, token, progress, error;
  std::vector<std::int64_t> delay, counted;
};

}  // namespace outbox::inline v0::postgres
