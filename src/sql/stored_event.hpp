// An event as the columns of a new row: the one conversion that every SQL store uses.
#pragma once

#include <chrono>
#include <outbox/spi/codecs.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// The texts point into the event of the insertion, which must outlive this; only the headers are owned. An empty text
/// stands for NULL, except in `payload` and `bytes`.
struct stored_event {
  explicit stored_event(spi::insertion const& i)
      : stored_event{i, i.event->record(), i.event->record().kind == payload_kind::json} {}

  event const* source;
  std::string_view id, type, aggregate_type, aggregate_id, tenant, ordering_key;
  bool json;                      ///< False: the payload is in `bytes`.
  std::string_view payload;       ///< JSON text; "null" if the payload is bytes.
  std::string_view content_type;  ///< Empty for JSON.
  std::string_view bytes;         ///< Empty for JSON.
  std::string headers;            ///< As `spi::encode_headers` writes them.
  instant created_at;
  spi::due_time due;
  std::string_view token;  ///< Empty: the row has no owner.
  std::chrono::milliseconds lease;

  [[nodiscard]] bool owned() const noexcept { return !token.empty(); }

  /// True if it asks to be delivered later than at once: it is then outside the order of its key.
  [[nodiscard]] bool delayed() const noexcept { return due.at || due.after.count() > 0; }

  /// True if any of the columns that most rows leave NULL has a value.
  [[nodiscard]] bool rich() const noexcept {
    return !json || !tenant.empty() || !headers.empty() || !ordering_key.empty();
  }

 private:
  stored_event(spi::insertion const& i, event_record const& e, bool is_json)
      : source{i.event},
        id{e.id},
        type{e.type},
        aggregate_type{e.aggregate.type},
        aggregate_id{e.aggregate.id},
        tenant{e.tenant},
        ordering_key{e.ordering_key},
        json{is_json},
        payload{is_json ? std::string_view{e.payload} : std::string_view{"null"}},
        content_type{is_json ? std::string_view{} : std::string_view{e.content_type}},
        bytes{is_json ? std::string_view{} : std::string_view{e.payload}},
        headers{spi::encode_headers(i.event->headers())},
        created_at{e.occurred_at},
        due{spi::due_of(*i.event)},
        token{i.token},
        lease{i.lease} {}
};

}  // namespace outbox::inline v0::sql
