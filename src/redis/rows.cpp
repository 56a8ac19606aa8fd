#include "redis/rows.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <outbox/spi/codecs.hpp>
#include <utility>

namespace outbox::inline v0::redis {
namespace {

using std::string_view;

// The values of a hash by their names. A row has some twenty of them, so a search from the front is fast enough.
class named_values {
 public:
  explicit named_values(answer_view pairs) noexcept : names_{pairs}, values_{pairs}, step_{2} {}
  named_values(answer_view names, answer_view values) noexcept : names_{names}, values_{values}, step_{1} {}

  [[nodiscard]] answer_view get(string_view name) const noexcept {
    for (std::size_t i = 0; i < names_.size(); i += step_) {
      if (names_[i].text() == name) return values_[i + step_ - 1];
    }
    return answer_view{nullptr};
  }
  [[nodiscard]] std::string text(string_view name) const { return std::string{get(name).text()}; }
  [[nodiscard]] std::int64_t number(string_view name) const noexcept { return get(name).number(); }
  [[nodiscard]] std::uint64_t count(string_view name) const noexcept {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number(name)));
  }
  [[nodiscard]] std::optional<instant> time(string_view name) const noexcept { return instant_of(get(name)); }

 private:
  answer_view names_;
  answer_view values_;
  std::size_t step_;  ///< From one name to the next. Where it is 2, the value stands between them.
};

constexpr std::array<std::pair<string_view, event_status>, 4> statuses{{{"NEW", event_status::created},
                                                                        {"DONE", event_status::delivered},
                                                                        {"RETRY", event_status::retry},
                                                                        {"DEAD", event_status::dead}}};

constexpr std::array modes{node_mode::single_node, node_mode::multi_node, node_mode::ordered, node_mode::writer_only,
                           node_mode::keyed};

event_status read_status(string_view text, std::string& malformed) {
  auto const* const found = std::ranges::find(statuses, text, &std::pair<string_view, event_status>::first);
  if (found != statuses.end()) return found->second;
  malformed = "its status is none that this library knows";
  return event_status::created;
}

event read_event(string_view id, answer_view payload, named_values const& r, std::string& malformed) {
  event_record e;
  e.id = id;
  e.type = r.text("event_type");
  e.aggregate = {r.text("aggregate_type"), r.text("aggregate_id")};
  if (e.aggregate.type.empty()) e.aggregate.type = global_aggregate;
  e.tenant = r.text("tenant_id");
  e.ordering_key = r.text("ordering_key");
  e.kind = r.get("payload_kind").text() == "bytes" ? payload_kind::bytes : payload_kind::json;
  e.payload = payload.text();
  e.content_type = r.text("content_type");
  if (e.content_type.empty()) e.content_type = "application/json";
  e.occurred_at = r.time("created_at").value_or(r.time("inserted_at").value_or(instant{}));
  if (payload.nil()) malformed = "its payload is not there";
  if (e.type.empty()) malformed = "it has no event type";
  if (auto h = spi::decode_headers(r.get("headers").text())) {
    e.headers = std::move(*h);
  } else {
    malformed = "its headers are not a JSON object of strings";
  }
  return event::restore(std::move(e));
}

row_view read_values(answer_view a, named_values const& r, std::string& malformed) {
  row_view v{.event = read_event(a[0].text(), a[1], r, malformed)};
  v.seq = r.number("seq");
  v.status = read_status(r.get("status").text(), malformed);
  v.attempts = static_cast<std::int32_t>(r.number("attempts"));
  v.crashes = static_cast<std::int32_t>(r.number("crashes"));
  v.inserted_at = r.time("inserted_at").value_or(v.event.occurred_at());
  v.available_at = r.time("available_at").value_or(v.inserted_at);
  v.done_at = r.time("done_at");
  v.locked_by = r.text("locked_by");
  v.lease_until = r.time("lease_until");
  v.last_error = r.text("last_error");
  v.progress = r.text("progress");
  auto const blocked = r.get("blocked");
  v.blocked = blocked.nil() ? std::nullopt : std::optional{blocked.text() == "1"};
  return v;
}

void add_unless_empty(arguments& to, string_view name, std::string value) {
  if (!value.empty()) to.add(name).add(std::move(value));
}

}  // namespace

std::optional<instant> instant_of(answer_view a) noexcept {
  auto const t = a.text();
  std::int64_t us = 0;
  auto const [end, code] = std::from_chars(t.data(), t.data() + t.size(), us);
  if (code != std::errc{} || end != t.data() + t.size()) return std::nullopt;
  return instant{std::chrono::microseconds{us}};
}

string_view stored(event_status s) noexcept {
  auto const* const found = std::ranges::find(statuses, s, &std::pair<string_view, event_status>::second);
  return found == statuses.end() ? string_view{} : found->first;
}

void add_row(arguments& to, spi::insertion const& row) {
  auto const& e = *row.event;
  auto const due = spi::due_of(e);
  to.add(e.id()).add(row.token).add(row.lease);
  to.add(due.at ? text_of(*due.at) : std::string{}).add(due.after).add(spi::key_of(e)).add(e.payload());
  auto const count = to.words().size();
  to.add("");
  to.add("event_type").add(e.type()).add("aggregate_type").add(e.aggregate_type());
  to.add("payload_kind").add(e.kind() == payload_kind::bytes ? "bytes" : "json");
  to.add("content_type").add(e.content_type()).add("created_at").add(e.occurred_at()).add("size").add(e.size_bytes());
  add_unless_empty(to, "aggregate_id", e.aggregate_id());
  add_unless_empty(to, "tenant_id", e.tenant());
  add_unless_empty(to, "ordering_key", e.ordering_key());
  add_unless_empty(to, "headers", spi::encode_headers(e.headers()));
  to.words()[count] = std::to_string(to.words().size() - count - 1);
}

row_view read_row(answer_view a, std::string& malformed) { return read_values(a, named_values{a[2]}, malformed); }

row_view read_row(answer_view names, answer_view a, std::string& malformed) {
  return read_values(a, named_values{names, a[2]}, malformed);
}

void add_node(arguments& to, node_row const& node) {
  to.add("name").add(node.name).add("version").add(node.version).add("mode").add(name(node.mode));
  to.add("held").add(node.held).add("active").add(node.active).add("reason").add(node.reason);
  to.add("lock_key").add(node.lock_key).add("done").add(node.done).add("failed").add(node.failed);
  to.add("dead").add(node.dead).add("erased").add(node.erased).add("routes").add(spi::encode_routes(node.routes));
}

node_row read_node(answer_view a) {
  named_values const r{a};
  node_row n;
  n.incarnation = r.text("incarnation");
  n.name = r.text("name");
  n.version = r.text("version");
  auto const mode = r.get("mode").text();
  auto const* const known = std::ranges::find_if(modes, [&](node_mode m) { return name(m) == mode; });
  n.mode = known == modes.end() ? node_mode::unknown : *known;
  n.lease = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds{r.number("lease")});
  n.held = r.count("held");
  n.started_at = r.time("started_at");
  n.active = r.get("active").text() == "1";
  n.reason = r.text("reason");
  n.lock_key = r.text("lock_key");
  n.done = r.count("done");
  n.failed = r.count("failed");
  n.dead = r.count("dead");
  n.erased = r.count("erased");
  n.routes = spi::decode_routes(r.get("routes").text());
  return n;
}

spi::audit_entry read_audit(answer_view a) {
  named_values const r{a};
  spi::audit_entry e;
  e.id = r.number("id");
  e.at = r.time("at").value_or(instant{});
  e.who = r.text("who");
  e.verb = r.text("verb");
  e.filter = r.text("filter");
  e.reason = r.text("reason");
  e.matched = r.count("matched");
  if (!r.get("changed").nil()) e.changed = r.count("changed");
  e.ended_at = r.time("ended_at");
  return e;
}

}  // namespace outbox::inline v0::redis
