#include "sql/sql_rows.hpp"

#include <outbox/spi/codecs.hpp>

namespace outbox::inline v0::sql {
namespace {

enum column {
  seq,
  event_id,
  event_type,
  aggregate_type,
  aggregate_id,
  tenant_id,
  payload,
  headers_column,
  status,
  attempts,
  crashes,
  available_at,
  created_at,
  inserted_at,
  done_at,
  last_error,
  locked_by,
  lease_until,
  ordering_key,
  progress,
  content_type,
  payload_bytes
};
static_assert(payload_bytes + 1 == columns_of_a_row);
static_assert(available_at == available_at_column);

std::string text(row const& r, int c) { return std::string{r.text(c)}; }

value or_null(std::string const& s) { return s.empty() ? value{} : value{std::string_view{s}}; }

event read_event(row const& r, std::string& malformed) {
  event_record e;
  e.id = text(r, event_id);
  e.type = text(r, event_type);
  e.aggregate = {r.null(aggregate_type) ? std::string{global_aggregate} : text(r, aggregate_type),
                 text(r, aggregate_id)};
  e.tenant = text(r, tenant_id);
  e.ordering_key = text(r, ordering_key);
  e.kind = r.null(payload_bytes) ? payload_kind::json : payload_kind::bytes;
  e.payload = text(r, e.kind == payload_kind::json ? payload : payload_bytes);
  e.content_type = r.null(content_type) ? "application/json" : text(r, content_type);
  e.occurred_at = r.time(created_at).value_or(r.time(inserted_at).value_or(instant{}));
  if (auto h = spi::decode_headers(r.text(headers_column))) {
    e.headers = std::move(*h);
  } else {
    malformed = "its headers are not a JSON object of strings";
  }
  return event::restore(std::move(e));
}

}  // namespace

row_view read_row(row const& r, std::string& malformed) {
  row_view v{.event = read_event(r, malformed)};
  v.seq = r.integer(seq);
  v.status = static_cast<event_status>(r.integer(status));
  v.attempts = static_cast<std::int32_t>(r.integer(attempts));
  v.crashes = static_cast<std::int32_t>(r.integer(crashes));
  v.inserted_at = r.time(inserted_at).value_or(v.event.occurred_at());
  v.available_at = r.time(available_at).value_or(v.inserted_at);
  v.done_at = r.time(done_at);
  v.locked_by = text(r, locked_by);
  v.lease_until = r.time(lease_until);
  v.last_error = text(r, last_error);
  v.progress = text(r, progress);
  return v;
}

std::vector<value> insert_parameters(spi::insertion const& i, std::string const& headers) {
  auto const& e = i.event->record();
  bool const json = e.kind == payload_kind::json;
  bool const owned = !i.token.empty();
  value available = from_now{};
  if (e.deliver_after) available = from_now{*e.deliver_after};
  if (i.event->delayed() && e.available_at) available = *e.available_at;
  return {std::string_view{e.id},
          std::string_view{e.type},
          std::string_view{e.aggregate.type},
          or_null(e.aggregate.id),
          or_null(e.tenant),
          json ? std::string_view{e.payload} : std::string_view{"null"},
          or_null(headers),
          available,
          e.occurred_at,
          from_now{},
          or_null(e.ordering_key),
          owned ? value{i.token} : value{},
          owned ? value{from_now{}} : value{},
          owned ? value{from_now{i.lease}} : value{},
          json ? value{} : value{std::string_view{e.content_type}},
          json ? value{} : value{blob{e.payload}}};
}

}  // namespace outbox::inline v0::sql
