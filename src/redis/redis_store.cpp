#include "redis/redis_store.hpp"

#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/spi/claim_filter.hpp>
#include <outbox/spi/codecs.hpp>
#include <utility>

#include "core/events/names_check.hpp"
#include "redis/dispatch_lock.hpp"
#include "redis/inserts.hpp"
#include "redis/pieces.hpp"
#include "redis/rows.hpp"

namespace outbox::inline v0::redis {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How many rows a claim looks at in all.
constexpr std::size_t widest = 500'000;

// Settlements and renewals in one script.
constexpr std::size_t most_items = 1000;

bool digit(std::string_view digits, std::size_t i) noexcept { return i < digits.size() && digits[i] == '1'; }

std::string_view word_of(spi::outcome o) noexcept {
  switch (o) {
    case spi::outcome::delivered: return "done";
    case spi::outcome::retry: return "retry";
    case spi::outcome::defer: return "defer";
    case spi::outcome::dead: return "dead";
    case spi::outcome::release: return "release";
  }
  return {};
}

// What claim.lua answers, by place.
enum claim_field : std::size_t {
  at_now,
  at_more,
  at_suspects,
  at_next_due,
  at_lag,
  at_first_left,
  at_last_seen,
  at_end,
  at_left_due,
  at_left_leased,
  at_bytes,
  at_dead,
  at_rows,
  at_names,
  at_looked_up_to,
  at_noted,
};

// How far the parts of one claim have come.
struct claim_progress {
  std::string floor{};  ///< As text; empty if there is none.
  std::size_t bytes = 0;
  std::int64_t left_due = 0;
  std::int64_t left_leased = 0;
  std::optional<instant> first_left{};
  std::optional<instant> last_seen{};
};

// Each key of which rows were taken, and the number of its rows.
void add_keys(arguments& to, std::span<spi::claimed_row const> taken) {
  std::map<std::string_view, std::size_t> rows;
  for (auto const& r : taken) {
    if (!r.key.empty()) ++rows[r.key];
  }
  to.add(rows.size());
  for (auto const& [key, n] : rows) to.add(key).add(n);
}

// What is said again in each part of one claim.
arguments claim_arguments(spi::claim_request const& r, claim_progress const& at,
                          std::span<spi::claimed_row const> taken) {
  bool const alone = !r.in_order && r.suspects == spi::suspects::take_one;
  arguments a{r.token,
              alone ? std::min<std::size_t>(1, r.limit) : r.limit,
              at.bytes,
              r.lease,
              r.max_crashes,
              alone,
              r.unowned_only && !r.in_order,
              r.retries_only && !r.in_order,
              r.in_order,
              r.keyed && !r.in_order,
              r.run,
              r.skip_recent,
              at.floor,
              piece,
              at.left_due,
              at.left_leased,
              taken.size(),
              r.leave.size()};
  for (auto const& id : r.leave) a.add(id);
  a.add(r.pauses.size());
  for (auto const& p : r.pauses) a.add(p.event_type).add(p.aggregate_type);
  add_keys(a, r.keyed ? taken : std::span<spi::claimed_row const>{});
  return a;
}

// Puts what a part of a claim brought behind what the earlier parts did.
void append(answer_view a, owner_token const& token, spi::claim_reply& reply) {
  bool const first = reply.now == instant{};
  reply.now = instant_of(a[at_now]).value_or(instant{});
  reply.more = reply.more || a[at_more].number() == 1;
  reply.noted += static_cast<std::size_t>(std::max<std::int64_t>(0, a[at_noted].number()));
  reply.suspects_waiting = reply.suspects_waiting || a[at_suspects].number() == 1;
  if (auto const next = instant_of(a[at_next_due])) reply.next_due = std::min(reply.next_due.value_or(*next), *next);
  if (auto const lag = instant_of(a[at_lag]); lag && (first || reply.oldest_lag == milliseconds{0})) {
    reply.oldest_lag = std::chrono::floor<milliseconds>(lag->time_since_epoch());
  }
  for (std::size_t i = 0; i < a[at_dead].size(); ++i) {
    auto const d = a[at_dead][i];
    reply.dead.push_back(
        {std::string{d[0].text()}, std::string{d[1].text()}, static_cast<std::int32_t>(d[2].number()), {}});
  }
  for (std::size_t i = 0; i < a[at_rows].size(); ++i) {
    std::string malformed;
    auto row = read_row(a[at_names], a[at_rows][i], malformed);
    auto const seq = row.seq;
    reply.rows.push_back(spi::claim_of(std::move(row), token, seq, std::move(malformed)));
  }
}

}  // namespace

redis_store::redis_store(std::shared_ptr<server> where, options o, std::string identity)
    : server_{std::move(where)},
      options_{std::move(o)},
      identity_{std::move(identity)},
      shown_{"outbox '" + options_.name + "' on Redis"} {
  if (options_.notify && !options_.read_only) wake_ = std::make_unique<wake_line>(server_, options_.log);
}

redis_store::~redis_store() = default;

store_capabilities redis_store::capabilities() const noexcept {
  return {.kind = "redis",
          .requires_transaction = false,
          .keeps_done_rows = options_.done_rows == done_rows::keep,
          .table = shown_,
          .dispatch_lock = lock_kind::lease,
          .event_filters = true,
          .audit = true,
          .event_types = true,
          .keys = true,
          .findings = true,
          .overview = true,
          .waiting_types = true};
}

instant redis_store::now() {
  auto const a = read(all_scripts().read_table, arguments{"time"}, "cannot read the time");
  return instant_of(a).value_or(instant{});
}

void redis_store::check_writable() const {
  if (options_.read_only) throw error{errc::unsupported, "the store was opened to read only"};
}

answer redis_store::change(script const& s, arguments const& args, std::string_view doing, bool* sent) {
  check_writable();
  return server_->run(s, args, doing, sent);
}

void redis_store::insert(transaction_ref tx, std::span<spi::insertion const> rows,
                         std::shared_ptr<spi::insert_receipt> const& receipt) {
  check_writable();
  if (tx.none()) return insert_at_once(rows, receipt.get());
  auto const refuse = [](char const* why) { throw error{errc::wrong_transaction, why}; };
  if (tx.kind() != "redis") refuse("a store on Redis needs a transaction of Redis, or none");
  bool const joined = tx.run<insert_queue>([&](insert_queue& q) { q.add(*this, rows, receipt); });
  if (!joined) refuse("this transaction gives its store nothing to work on");
}

void redis_store::insert_at_once(std::span<spi::insertion const> rows, spi::insert_receipt* receipt) {
  if (rows.empty()) return;
  arguments args{receipt != nullptr, rows.size()};
  args.reserve(2 + rows.size() * 26);
  for (auto const& r : rows) add_row(args, r);
  bool sent = false;
  std::size_t confirmed = 0;
  try {
    auto const a =
        server_->run_and_wait(all_scripts().insert, args, "cannot write events", options_.replicas, confirmed, &sent);
    fill(receipt, a, rows.size());
  } catch (error const& e) {
    if (!sent) throw;
    throw error{errc::commit_in_doubt, std::string{"it is unknown whether the events were written: "} + e.what()};
  }
  check_replicas(confirmed, options_.replicas);
}

// The script looks at a part of the rows at a time. A part that finds enough, or the end, is the last one. Rows that
// were taken do not wait until a long line behind another row has been noted.
spi::claim_reply redis_store::claim(spi::claim_request const& request) {
  spi::claim_reply reply;
  claim_progress at{.bytes = request.max_bytes};
  if (!request.in_order && request.floor) at.floor = text_of(*request.floor);
  if (!request.in_order && !request.floor && request.reach) at.floor = text_of(now() - *request.reach);
  for (std::size_t looked = 0; looked < widest; looked += piece) {
    auto const a = change(all_scripts().claim, claim_arguments(request, at, reply.rows), "cannot claim events");
    append(a, request.token, reply);
    if (!at.first_left) at.first_left = instant_of(a[at_first_left]);
    if (auto const seen = instant_of(a[at_last_seen])) at.last_seen = seen;
    if (a[at_end].number() == 1) break;
    at.left_due += a[at_left_due].number();
    at.left_leased += a[at_left_leased].number();
    at.bytes -= std::min(at.bytes, static_cast<std::size_t>(a[at_bytes].number()));
    bool const enough = reply.rows.size() >= request.limit || (!reply.rows.empty() && reply.noted >= piece / 2);
    if (enough || looked + piece >= widest) {
      reply.more = true;
      if (!at.first_left) at.last_seen = instant_of(a[at_looked_up_to]);  // the next claim goes on from there
      break;
    }
  }
  if (!request.in_order) reply.floor = at.first_left ? at.first_left : at.last_seen;
  return reply;
}

spi::settle_reply redis_store::settle(std::span<spi::settlement const> items) {
  spi::settle_reply reply;
  reply.applied.reserve(items.size());
  while (!items.empty()) {
    auto const some = items.first(std::min(items.size(), most_items));
    items = items.subspan(some.size());
    arguments args{options_.done_rows == done_rows::keep};
    args.reserve(1 + some.size() * 9);
    for (auto const& s : some) {
      args.add(s.row.id).add(s.row.token).add(word_of(s.outcome)).add(s.counted).add(s.delay);
      args.add(s.outcome == spi::outcome::delivered ? std::string{} : s.error).add(s.progress).add(s.key).add(s.seq);
    }
    auto const a = change(all_scripts().settle, args, "cannot settle events");
    for (std::size_t i = 0; i < some.size(); ++i) reply.applied.push_back(digit(a[0].text(), i));
    reply.unblocked += static_cast<std::size_t>(a[1].number());
  }
  return reply;
}

std::vector<bool> redis_store::renew(std::span<spi::row_handle const> rows, milliseconds lease) {
  std::vector<bool> kept;
  kept.reserve(rows.size());
  while (!rows.empty()) {
    auto const some = rows.first(std::min(rows.size(), most_items));
    rows = rows.subspan(some.size());
    arguments args{lease};
    for (auto const& r : some) args.add(r.id).add(r.token);
    auto const a = change(all_scripts().renew, args, "cannot renew leases");
    for (std::size_t i = 0; i < some.size(); ++i) kept.push_back(digit(a.text(), i));
  }
  return kept;
}

std::size_t redis_store::release(std::span<owner_token const> tokens, milliseconds /*lease*/) {
  if (tokens.empty()) return 0;
  return in_pieces([&](std::string const& last, std::string const& score) {
    arguments args{piece, last, score};
    for (auto const& t : tokens) args.add(t);
    return change(all_scripts().release, args, "cannot release events");
  });
}

std::unique_ptr<spi::dispatch_lock> redis_store::try_dispatch_lock(std::string_view incarnation, milliseconds lease) {
  check_writable();
  return leased_lock::take(server_, options_.clock ? options_.clock : machine_clock(), incarnation, lease);
}

void redis_store::heartbeat(node_row const& node) {
  arguments args{"beat", node.incarnation, node.lease};
  add_node(args, node);
  change(all_scripts().node, args, "cannot write the node's row");
}

void redis_store::retire(std::string_view incarnation) {
  change(all_scripts().node, arguments{"retire", incarnation}, "cannot remove the node's row");
}

std::vector<node_row> redis_store::nodes() {
  auto const a = read(all_scripts().read_nodes, arguments{"list"}, "cannot read the nodes");
  std::vector<node_row> live;
  for (std::size_t i = 0; i < a.size(); ++i) live.push_back(read_node(a[i]));
  std::ranges::sort(live, {}, &node_row::incarnation);
  return live;
}

spi::table_settings redis_store::settings() {
  auto const a = read(all_scripts().read_table, arguments{"settings"}, "cannot read the settings of the outbox");
  auto decoded = spi::decode_pauses(a[0].text());
  return {.pauses = std::move(decoded.pauses),
          .ignored_pauses = decoded.ignored,
          .oldest_library = std::max(1, static_cast<int>(a[1].number())),
          .keyed = a[2].text() == "1"};
}

// Two operators may change the pauses at once: the script refuses what was made from an old text.
bool redis_store::change_pauses(std::function<bool(std::vector<route_pause>&)> const& edit) {
  while (true) {
    auto const before = read(all_scripts().read_table, arguments{"settings"}, "cannot read the pauses");
    auto pauses = spi::decode_pauses(before[0].text()).pauses;
    if (!edit(pauses)) return false;
    arguments const args{"pauses", before[0].text(), spi::encode_pauses(pauses)};
    if (change(all_scripts().table, args, "cannot change the pauses").number() == 1) return true;
  }
}

bool redis_store::pause(route_pause const& what) {
  core::check_pause(what);
  return change_pauses([&](std::vector<route_pause>& pauses) {
    if (std::ranges::find(pauses, what) != pauses.end()) return false;
    pauses.push_back(what);
    return true;
  });
}

bool redis_store::resume(route_pause const& what) {
  return change_pauses([&](std::vector<route_pause>& pauses) { return std::erase(pauses, what) > 0; });
}

spi::subscription redis_store::on_change(std::function<void()> callback) {
  return wake_ ? wake_->subscribe(std::move(callback)) : spi::subscription{};
}

void redis_store::hint() noexcept {
  if (wake_) wake_->say();
}

spi::subscription redis_store::on_wait(std::function<void(std::chrono::nanoseconds)> callback) {
  return server_->on_wait(std::move(callback));
}

}  // namespace outbox::inline v0::redis
