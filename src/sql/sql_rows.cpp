#include "sql/sql_rows.hpp"

#include <outbox/spi/codecs.hpp>

namespace outbox::inline v0::sql {
namespace {

using enum column;

// The columns of a row by their names.
class named_row {
 public:
  explicit named_row(row const& r) noexcept : r_{r} {}
  [[nodiscard]] bool null(column c) const { return r_.null(index_of(c)); }
  [[nodiscard]] std::int64_t integer(column c) const { return r_.integer(index_of(c)); }
  [[nodiscard]] std::string_view view(column c) const { return r_.text(index_of(c)); }
  [[nodiscard]] std::string text(column c) const { return std::string{view(c)}; }
  [[nodiscard]] std::optional<instant> time(column c) const { return r_.time(index_of(c)); }

 private:
  row const& r_;
};

event read_event(named_row const& r, std::string& malformed) {
  event_record e;
  e.id = r.text(event_id);
  e.type = r.text(event_type);
  e.aggregate = {r.null(aggregate_type) ? std::string{global_aggregate} : r.text(aggregate_type), r.text(aggregate_id)};
  e.tenant = r.text(tenant_id);
  e.ordering_key = r.text(ordering_key);
  e.kind = r.null(payload_bytes) ? payload_kind::json : payload_kind::bytes;
  e.payload = r.text(e.kind == payload_kind::json ? payload : payload_bytes);
  e.content_type = r.null(content_type) ? "application/json" : r.text(content_type);
  e.occurred_at = r.time(created_at).value_or(r.time(inserted_at).value_or(instant{}));
  if (auto h = spi::decode_headers(r.view(headers))) {
    e.headers = std::move(*h);
  } else {
    malformed = "its headers are not a JSON object of strings";
  }
  return event::restore(std::move(e));
}

}  // namespace

row_view read_row(row const& selected, std::string& malformed) {
  named_row const r{selected};
  row_view v{.event = read_event(r, malformed)};
  v.seq = r.integer(seq);
  v.status = static_cast<event_status>(r.integer(status));
  v.attempts = static_cast<std::int32_t>(r.integer(attempts));
  v.crashes = static_cast<std::int32_t>(r.integer(crashes));
  v.inserted_at = r.time(inserted_at).value_or(v.event.occurred_at());
  v.available_at = r.time(available_at).value_or(v.inserted_at);
  v.done_at = r.time(done_at);
  v.locked_by = r.text(locked_by);
  v.lease_until = r.time(lease_until);
  v.last_error = r.text(last_error);
  v.progress = r.text(progress);
  v.blocked = r.null(blocked) ? std::nullopt : std::optional{r.integer(blocked) != 0};
  return v;
}

}  // namespace outbox::inline v0::sql
