#include "doctor_checks.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <outbox/spi/check.hpp>
#include <system_error>

#include "cli/filter_options.hpp"
#include "cli/rows.hpp"
#include "cli/time_text.hpp"
#include "verdict.hpp"

namespace outbox_tool {
namespace {

using outbox::instant;
using outbox::node_row;
using outbox::spi::check;
using outbox::spi::finding_level;
using std::chrono::microseconds;

std::string counted(std::uint64_t n, std::string const& one) {
  return number_text(n) + " " + one + (n == 1 ? "" : "s");
}

std::string listed(std::vector<std::string> const& names, std::size_t most = 5) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more" : text;
}

// An id or a type as an argument of a command: other people may have written it.
std::string argument(std::string const& text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
  if (!text.empty() && text.front() != '-' && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (auto const c : text) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return quoted + "'";
}

bool may_deliver(node_row const& n) { return n.mode != outbox::node_mode::writer_only; }

void check_waiting(outbox::spi::table_overview const& t, doctor_limits const& limits, finding_list& found) {
  check const lag{found, "oldest_pending", "Receivers get old news, and the table grows."};
  if (!t.waiting_since) {
    lag.passed("No event waits.");
  } else {
    auto const waits = std::chrono::duration_cast<std::chrono::milliseconds>(t.at - *t.waiting_since);
    constexpr int problem_after = 12;
    auto const level =
        outbox::spi::limit_pair<std::chrono::milliseconds>{limits.lag, limits.lag * problem_after}.judge(waits);
    lag.says(level,
             "The oldest of " + counted(t.pending, "pending event") + (t.pending >= t.limit ? " or more" : "") +
                 " waits for " + duration_text(waits) + ".",
             level == finding_level::passed ? "" : "outbox status\noutbox errors");
  }
  check const dead{found, "dead_events", "Dead events are not delivered until an operator replays them."};
  if (t.dead == 0) return dead.passed("No event is dead.");
  dead.warning(counted(t.dead, "event") + (t.dead >= t.limit ? " or more are dead."
                                           : t.dead == 1     ? " is dead."
                                                             : " are dead."),
               "outbox errors --state dead\noutbox replay --all");
}

// True if the text has a password: a value of a name like it, or a part of a URL. A reference to a variable is none.
bool has_secret(std::string const& text) {
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (auto const* const name : {"password", "secret", "token", "api_key"}) {
    for (auto at = lower.find(name); at != std::string::npos; at = lower.find(name, at + 1)) {
      auto const line = lower.substr(at, lower.find('\n', at) - at);
      auto const equals = line.find('=');
      if (equals == std::string::npos) continue;
      auto const value = line.find_first_not_of(" \t\"'", equals + 1);
      bool const elsewhere = value == std::string::npos || line[value] == '$' || line[value] == '\r';
      if (!elsewhere) return true;
    }
  }
  for (auto at = lower.find("://"); at != std::string::npos; at = lower.find("://", at + 3)) {
    auto const authority = lower.substr(at + 3, lower.find_first_of("/ \"'\n?", at + 3) - at - 3);
    auto const user = authority.substr(0, authority.rfind('@'));
    auto const colon = user.find(':');
    if (user.size() == authority.size() || colon == std::string::npos || colon + 1 >= user.size()) continue;
    if (user[colon + 1] != '$') return true;
  }
  return false;
}

}  // namespace

void check_config_file(std::string const& file, finding_list& found) {
  if (file.empty()) return;
  check const here{found, "config_file", "Users who read a password can read and change the events."};
  struct ::stat about {};
  std::ifstream in{file};
  if (::stat(file.c_str(), &about) != 0 || !in) {
    return here.skipped("The configuration " + file + " could not be read: " + std::generic_category().message(errno) +
                        ".");
  }
  std::string const text{std::istreambuf_iterator<char>{in}, {}};
  bool const open_to_others = (about.st_mode & (S_IROTH | S_IWOTH)) != 0;
  constexpr unsigned permissions = 0777;
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode) & permissions);
  auto const text_of_mode = "The configuration " + file + " has the mode " + mode;
  if (!has_secret(text)) return here.passed(text_of_mode + " and no password in it.");
  if (!open_to_others) return here.passed(text_of_mode + ".");
  here.problem(text_of_mode + " and a password in it.", "chmod o-rwx '" + file + "'");
}

void check_clocks(std::function<instant()> const& theirs, std::function<instant()> const& ours,
                  doctor_limits const& limits, finding_list& found) {
  check const here{found, "clock_skew",
                   "Times that programs write themselves, and logs of several machines, do not agree with the table."};
  here.attempt([&] {
    constexpr int samples = 5;
    auto best = microseconds::max();
    microseconds skew{0};
    for (int i = 0; i < samples; ++i) {
      auto const before = ours();
      auto const there = theirs();
      auto const trip = ours() - before;
      if (trip >= best) continue;
      best = trip;
      skew = there - (before + trip / 2);
    }
    auto const size = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::abs(skew));
    auto const level = limits.skew.judge(size);
    here.says(level,
              "The clock of the database is " + std::to_string(size.count()) + " ms " +
                  (skew.count() < 0 ? "behind" : "ahead of") + " this machine's, within " +
                  std::to_string((best.count() / 2 + 999) / 1000) + " ms.",
              level == finding_level::passed ? "" : "timedatectl set-ntp true");
  });
}

void check_nodes(std::vector<node_row> const& nodes, bool waiting, finding_list& found) {
  check const live{found, "live_nodes", "Only a live node that dispatches delivers events."};
  auto const dispatchers = static_cast<std::size_t>(std::ranges::count_if(nodes, may_deliver));
  auto const text = counted(dispatchers, "live node") + (dispatchers == 1 ? " dispatches" : " dispatch") +
                    " from the table" + (waiting ? ", and events wait." : ".");
  if (dispatchers > 0) {
    live.passed(text);
  } else if (waiting) {
    live.problem(text, "outbox relay --config /etc/outbox/relay.toml");
  } else {
    live.warning(text, "outbox relay --config /etc/outbox/relay.toml");
  }

  check const versions{found, "node_versions", "Nodes of different versions may treat the same event differently."};
  std::map<std::string, std::vector<std::string>> by_version;
  for (auto const& n : nodes) by_version[n.version].push_back(n.name.empty() ? n.incarnation : n.name);
  if (by_version.size() < 2) {
    versions.passed(nodes.empty() ? "No node is live."
                                  : "The live nodes have version " + by_version.begin()->first + ".");
  } else {
    std::string mixed;
    for (auto const& [version, names] : by_version) {
      mixed += (mixed.empty() ? "" : "; ") + version + ": " + listed(names);
    }
    versions.warning("The live nodes have " + std::to_string(by_version.size()) + " versions (" + mixed + ").",
                     "outbox nodes");
  }

  check const unwell{found, "unwell_node", "A node that is not well delivers late or not at all."};
  std::string reasons;
  for (auto const& n : nodes) {
    if (!n.reason.empty()) reasons += (reasons.empty() ? "" : "; ") + n.name + ": " + n.reason;
  }
  if (reasons.empty()) return unwell.passed("No live node says that it is not well.");
  unwell.warning("Nodes that are not well: " + reasons + ".", "outbox nodes");
}

void check_keys(bool keyed, std::vector<outbox::parked_key> const& parked, std::vector<node_row> const& nodes,
                instant now, finding_list& found) {
  std::vector<std::string> with_order, without;
  for (auto const& n : nodes) {
    if (!may_deliver(n)) continue;
    (n.mode == outbox::node_mode::keyed ? with_order : without).push_back(n.name.empty() ? n.incarnation : n.name);
  }
  check const marked{found, "order_of_keys",
                     "Only keyed nodes keep the order of keys, and only on a table that says so."};
  if (keyed && !without.empty()) {
    marked.problem("The table is keyed, and live nodes of other modes deliver from it: " + listed(without) + ".",
                   "outbox nodes\n-- stop them, or the keyed nodes, and then: outbox unkey");
  } else if (!keyed && !with_order.empty()) {
    marked.problem("The table is not marked as keyed, and keyed nodes are live: " + listed(with_order) +
                       ". Either they are still preparing it, or its mark was removed.",
                   "outbox nodes\n-- nodes that started a moment ago: wait, they mark the table when its index is there"
                   "\n-- others: restart them, the first one that starts marks the table again");
  } else {
    marked.passed(keyed ? "The table keeps the order of keys."
                        : "The table keeps no order of keys, and no live node does.");
  }
  if (!keyed) return;
  check const parks{found, "parked_keys", "Nothing behind the dead event of a key is delivered."};
  if (parked.empty()) return parks.passed("No key is parked.");
  auto const& first = first_parked(parked);
  std::uint64_t waiting = 0;
  for (auto const& p : parked) waiting += p.waiting;
  parks.warning(counted(parked.size(), "key") +
                    (parked.size() >= most_parked ? " or more are"
                     : parked.size() == 1         ? " is"
                                                  : " are") +
                    " parked, and " + counted(waiting, "event") + (waiting == 1 ? " waits" : " wait") +
                    "; the first is " + key_text(first.key) + " behind event " + first.id +
                    (first.since ? ", for " + duration_text(now - *first.since) : "") + ".",
                "outbox show " + argument(first.id) + "\noutbox replay " + argument(first.id) +
                    "\n-- or, if the event is not to be delivered: outbox discard " + argument(first.id));
}

void check_routes(std::vector<node_row> const& nodes, std::vector<outbox::spi::event_type_counts> const& types,
                  bool keyed, finding_list& found) {
  check const here{found, "unserved_types", "A node makes an event dead for which it has no route, or defers it."};
  if (types.empty()) return here.passed("No event waits or is dead, so none lacks a route.");
  if (std::ranges::none_of(nodes, may_deliver)) {
    return here.skipped("No live node dispatches from the table, so the routes are not known.", "outbox nodes");
  }
  bool guessed = false;
  auto const serves = [&](outbox::spi::event_type_counts const& t) {
    for (auto const& n : nodes) {
      if (!may_deliver(n)) continue;
      for (auto const& r : n.routes) {
        guessed = guessed || !r.known;
        if (r.serves(t.aggregate_type, t.event_type)) return true;
      }
      guessed = guessed || !n.started_at;
    }
    return false;
  };
  std::vector<std::string> unserved;
  std::string first;  // as an argument
  std::uint64_t pending = 0;
  for (auto const& t : types) {
    if (serves(t)) continue;
    if (unserved.empty()) first = argument(t.event_type);
    unserved.push_back(t.event_type + (t.aggregate_type == outbox::global_aggregate ? "" : " of " + t.aggregate_type));
    pending += t.counts.pending();
  }
  if (unserved.empty()) return here.passed("Every event type that waits or is dead has a route on a live node.");
  if (guessed) {
    return here.skipped(
        "A live node of an earlier version does not say which events its routes serve; without it, "
        "these have no route: " +
            listed(unserved) + ".",
        "outbox nodes");
  }
  here.says(pending > 0 ? finding_level::problem : finding_level::warning,
            "Event types without a route on any live node: " + listed(unserved) + ".",
            "outbox list --type " + first +
                "\n-- then deploy a node with a listener for it, or: outbox cancel --type " + first +
                (keyed ? "\n-- cancelled events park their keys until you run: outbox discard --type " + first : ""));
}

void check_store(outbox::store& s, doctor_limits const& limits, finding_list& found) {
  auto const can = s.capabilities();
  auto& b = s.backend();
  if (can.findings) {
    auto of_store = b.findings(limits.store);
    found.insert(found.end(), std::move_iterator{of_store.begin()}, std::move_iterator{of_store.end()});
  }
  if (can.kind != "sqlite" && can.kind != "memory") {  // there the store has the clock of this machine
    auto const machine = outbox::machine_clock();
    check_clocks([&] { return s.now(); }, [&] { return machine->now(); }, limits, found);
  }
  outbox::spi::table_overview table;
  check const lag{found, "oldest_pending", "Receivers get old news, and the table grows."};
  if (!can.overview) {
    lag.skipped("A table of another shape has no index that tells.", "outbox status");
  } else {
    lag.attempt([&] {
      table = b.overview(most_rows);
      check_waiting(table, limits, found);
    });
  }
  if (!can.owners_in_table) return;  // nodes of such a table are known only to their own process
  check const live{found, "live_nodes", "Only a live node that dispatches delivers events."};
  live.attempt([&] {
    auto const nodes = s.inspect().nodes();
    check_nodes(nodes, table.pending > table.delayed, found);
    bool const keyed = can.keys && b.settings().keyed;
    if (can.keys) {
      check_keys(keyed, keyed ? b.parked_keys(most_parked) : std::vector<outbox::parked_key>{}, nodes, s.now(), found);
    }
    check const routes{found, "unserved_types", "A node makes an event dead for which it has no route, or defers it."};
    routes.attempt([&] { check_routes(nodes, b.waiting_types(most_rows), keyed, found); });
  });
}

void add_schema_problem(std::string const& problem, bool newer, finding_list& found) {
  check const here{found, "schema_version", "A library works only on a schema that it knows."};
  here.problem("The schema is not that of this tool: " + problem + ".",
               newer ? "apt-get install --only-upgrade outbox" : "outbox migrate");
}

void add_connection_problem(outbox::error const& e, finding_list& found) {
  check const here{found, "connection", "Without a connection nothing else can be checked."};
  here.problem(
      std::string{e.transient() ? "The database does not answer: " : "The database refuses: "} + e.what() + ".",
      e.transient() ? "Start the server, or correct the host and the port of --db."
                    : "Correct the user, the password or the database of --db.");
}

}  // namespace outbox_tool
