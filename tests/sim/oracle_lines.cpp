// I5 per key: what the oracle says about the lines of keys.
#include <algorithm>

#include "memory/rows.hpp"
#include "sim/oracle.hpp"

namespace outbox::sim {

using namespace spi;

void oracle::expect_keys(outbox::on_dead on_dead, std::set<std::string> keeps_order) {
  keyed_ = true;
  on_dead_ = on_dead;
  keeps_order_ = std::move(keeps_order);
}

bool oracle::in_line(row_view const& row) {
  return keyed_ && row.status != event_status::delivered && row.blocked && !of(row.event.id()).key.empty();
}

// Calls `f` until it returns false.
template <class F>
void oracle::for_each_before(row_view const& row, F&& f) {
  auto const& line = keys_[of(row.event.id()).key];
  for (auto at = line.lower_bound(row.seq); at != line.begin();) {
    --at;
    auto const& other = shadow_.at(at->second);
    if (in_line(other) && !f(other)) return;
  }
}

// Waits behind a DEAD event, until an operator replays or discards that.
bool oracle::is_parked(std::string const& id) {
  auto const row = shadow_.find(id);
  if (row == shadow_.end() || !in_line(row->second) || row->second.status == event_status::dead) return false;
  bool parked = false;
  for_each_before(row->second, [&](row_view const& other) {
    parked = parked || other.status == event_status::dead;
    return !parked;
  });
  return parked;
}

// True if the call of `t` must not begin because of the earlier event.
bool oracle::stands_before(std::string const& earlier, core::ticket const& t) {
  auto const& f = of(earlier);
  auto const caller = incarnation_of(t.handle.token);
  bool const unaware =
      std::ranges::any_of(f.untold, [&](owner_token const& lost) { return incarnation_of(lost) == caller; });
  if (unaware) return false;
  if (!f.running) return !f.delivered;
  auto const& type = shadow_.at(earlier).event.type();
  return f.runner != caller || type != t.event.type() || !keeps_order_.contains(type);
}

void oracle::check_line(core::ticket const& t, row_view const& row) {
  if (!in_line(row)) return;
  for_each_before(row, [&](row_view const& other) {
    auto const& id = other.event.id();
    if (stands_before(id, t)) {
      broken("I5", t.event.id(),
             "reached a listener of " + t.handle.token + " before " + id + " was delivered, which " + other.locked_by +
                 " owns");
    }
    if (t.path == path::hot && other.locked_by.starts_with(incarnation_of(t.handle.token) + "/")) {
      seen_["birth behind a birth"] += 1;
    }
    return true;
  });
}

// A claim takes the first row in line of a key, or all before the row too.
void oracle::check_claimed_lines(claim_reply const& reply) {
  std::set<std::string> taken;
  std::map<std::string, int> of_key;
  for (auto const& row : reply.rows) taken.insert(row.handle.id);
  for (auto const& row : reply.rows) {
    auto const& before = shadow_.at(row.handle.id);
    if (!in_line(before)) continue;
    if (++of_key[of(row.handle.id).key] == 2) seen_["run taken"] += 1;
    for_each_before(before, [&](row_view const& other) {
      if (!taken.contains(other.event.id())) {
        broken("I5", row.handle.id, "was claimed and " + other.event.id() + ", which is before it, was not");
      }
      return true;
    });
  }
}

// An event is DONE together with those before it, or after them. A listener that keeps the order itself may fail for an
// event while the next one is under way, which may then be DONE first.
void oracle::check_settled_lines(std::span<settlement const> items, std::vector<bool> const& applied) {
  std::set<std::string> leave;
  for (std::size_t i = 0; i < items.size(); ++i) {
    bool const done = items[i].outcome == outcome::delivered;
    if (applied[i] && (done || items[i].outcome == outcome::dead)) leave.insert(items[i].row.id);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto const& s = items[i];
    if (!applied[i]) continue;
    auto const& before = shadow_.at(s.row.id);
    if (!in_line(before)) continue;
    auto const& f = of(s.row.id);
    if (s.outcome == outcome::release && f.claimed_at == instant{}) seen_["birth given back"] += 1;
    if (s.outcome == outcome::dead && s.key.empty()) seen_["parked"] += 1;
    if (s.outcome != outcome::delivered) continue;
    bool const keeps_order = keeps_order_.contains(before.event.type());
    for_each_before(before, [&](row_view const& other) {
      auto const& id = other.event.id();
      auto const& e = of(id);
      bool const lost = e.lost_by.contains(incarnation_of(s.row.token));
      bool const again = e.call > f.call || e.runner != f.runner;  // it failed, and is tried again beside this one
      bool const failed = keeps_order && (again || (!e.running && !e.delivered));
      if (!leave.contains(id) && !lost && !failed)
        broken("I5", s.row.id, "is DONE and " + id + ", which is before it, is not");
      return true;
    });
  }
}

// Nothing stands before the first row of a line, so it must not wait: nothing would ever wake it.
void oracle::check_heads() {
  for (auto const& [key, line] : keys_) {
    for (auto const& [seq, id] : line) {
      auto const& row = shadow_.at(id);
      if (!in_line(row)) continue;
      bool const pending = row.status != event_status::dead;
      if (pending && row.blocked == true) broken("I5", id, "is the first of its key and waits: its wake-up was lost");
      break;
    }
  }
}

void oracle::placed(std::span<place const> places) {
  for (auto const& p : places) {
    if (p.known) seen_["placed by question"] += 1;
  }
}

// The lines were looked at after each change, so this says the same again from the table.
void oracle::healed(std::size_t rows) {
  if (rows > 0) broken("I5", "", std::to_string(rows) + " rows waited for nothing until a node healed them");
}

void oracle::told_of_loss(row_handle const& row) {
  if (auto const at = facts_.find(row.id); at != facts_.end()) at->second.untold.erase(row.token);
}

void oracle::leave_line(std::string const& id) {
  if (auto const at = shadow_.find(id); at != shadow_.end()) at->second.blocked.reset();
}

void oracle::discarded(std::string const& id, bool done) {
  auto const row = table_->inspect().find(id);
  auto const it = shadow_.find(id);
  if (done && (!row || row->blocked || row->status != event_status::dead)) {
    broken("I5", id, "was discarded and is still in line");
  }
  if (done) leave_line(id);
  if (it != shadow_.end()) refresh(id, false);
  if (done) seen_["discarded"] += 1;
  changed();
}

bool oracle::waits(std::string const& id) {
  auto const at = shadow_.find(id);
  if (at == shadow_.end() || !memory::pending(at->second) || !at->second.locked_by.empty()) return false;
  if (!in_line(at->second)) return false;
  bool behind = false;
  for_each_before(at->second, [&](row_view const&) {
    behind = true;
    return false;
  });
  return behind;
}

// It ends without a delivery, and parks its key until it is discarded.
void oracle::cancelled(std::string const& id) {
  auto const row = table_->inspect().find(id);
  auto& before = shadow_.at(id);
  if (!memory::pending(before)) broken("I4", id, "was cancelled after its end");
  if (!row || row->status != event_status::dead || row->blocked != false) {
    broken("I5", id, "was cancelled and does not park its key");
  }
  before = *row;
  seen_["cancelled out of order"] += 1;
  changed();
}

// What a reader of a trace wants to know about a row that stands still.
std::string oracle::describe(std::string const& id) {
  auto const about = [](row_view const& row) {
    auto text = "seq " + std::to_string(row.seq) + (row.blocked == true ? ", blocked" : "");
    return row.locked_by.empty() ? text : text + ", owned by " + row.locked_by;
  };
  auto const& row = shadow_.at(id);
  auto text = " (" + about(row);
  if (!keyed_ || !in_line(row)) return text + ")";
  for_each_before(row, [&](row_view const& other) {
    text += "; behind " + other.event.id() + ", " + about(other);
    return true;
  });
  return text + ")";
}

std::vector<std::string> oracle::dead() {
  std::vector<std::string> ids;
  for (auto const& [id, row] : shadow_) {
    if (row.status == event_status::dead) ids.push_back(id);
  }
  return ids;
}

}  // namespace outbox::sim
