// MULTI and EXEC: the application's commands and the events, in one step.
#include <algorithm>
#include <cctype>
#include <optional>
#include <outbox/error.hpp>
#include <outbox/redis.hpp>
#include <utility>

#include "redis/caller_wire.hpp"
#include "redis/inserts.hpp"
#include "redis/scripts.hpp"
#include "redis/server.hpp"

namespace outbox::inline v0 {
namespace redis {
namespace {

value value_of(answer_view a) {
  if (a.nil()) return {};
  if (a.failed()) return {.what = value::kind::failure, .text = std::string{a.text()}};
  if (a.list()) {
    value v{.what = value::kind::list};
    for (std::size_t i = 0; i < a.size(); ++i) v.elements.push_back(value_of(a[i]));
    return v;
  }
  if (a.raw()->type == REDIS_REPLY_INTEGER) return {.what = value::kind::number, .number = a.number()};
  return {.what = value::kind::text, .text = std::string{a.text()}};
}

// Commands that would end the transaction or begin another one.
bool steers(std::string_view name) {
  std::string upper{name};
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::string_view own[] = {"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "RESET", "QUIT"};
  return std::ranges::find(own, upper) != std::end(own);
}

std::vector<std::string_view> views(std::vector<std::string> const& words) { return {words.begin(), words.end()}; }

}  // namespace

struct transaction::state final : insert_queue {
  caller_wire* wire = nullptr;
  std::unique_ptr<caller_wire> own;                        ///< Of hiredis.
  std::vector<std::pair<std::string, std::string>> known;  ///< Where the connection keeps nothing.
  std::vector<std::vector<std::string>> commands;
  bool active = true;
  bool watches = false;

  std::string identity_of(std::string const& prefix) override;
  void watch(std::vector<std::string_view> keys);
  void unwatch() noexcept;
  void check_ids();
  std::vector<value> send();
  std::vector<value> read(std::vector<answer> const& queued, answer const& done);
  void wait_for_replicas();
  [[noreturn]] void refuse(error const& e);
  void end(void (spi::enlisted::*how)() noexcept) noexcept;
};

struct transaction_access {
  static transaction::state& of(transaction& tx) noexcept { return *tx.state_; }
};

// Asked once for each connection of ours; for one of hiredis, once in each transaction.
std::string transaction::state::identity_of(std::string const& prefix) {
  auto* const kept = wire->known() != nullptr ? wire->known() : &known;
  auto const found = std::ranges::find(*kept, prefix, &std::pair<std::string, std::string>::first);
  if (found != kept->end()) return found->second;
  wire->add({"HGET", prefix + "meta", "identity"});
  auto const a = wire->next();
  if (a.failed()) throw error_of(a, "cannot look for the outbox on the transaction's connection");
  if (!a.nil()) kept->emplace_back(prefix, a.text());
  return std::string{a.text()};
}

void transaction::state::watch(std::vector<std::string_view> keys) {
  if (keys.empty()) return;
  keys.insert(keys.begin(), "WATCH");
  wire->add(keys);
  watches = true;
  if (auto const a = wire->next(); a.failed()) throw error_of(a, "cannot watch keys");
}

void transaction::state::unwatch() noexcept {
  if (!std::exchange(watches, false)) return;
  try {
    wire->add({"UNWATCH"});
    static_cast<void>(wire->next());
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): a connection that is gone watches nothing
  }
}

// Ready for the next transaction before the observers are told: one of them may begin it.
void transaction::state::end(void (spi::enlisted::*how)() noexcept) noexcept {
  active = false;
  watches = false;
  wire->vacate();
  (writes.*how)();
}

void transaction::state::refuse(error const& e) {
  unwatch();
  end(&spi::enlisted::rolled_back);
  throw e;
}

// Redis cannot undo the application's commands when the script finds that an id is taken. So the keys of events whose
// ids the application chose are watched, and looked for, before anything is sent. Ids of the library's are new.
void transaction::state::check_ids() {
  std::vector<std::string_view> keys;
  for (auto const& g : groups()) keys.insert(keys.end(), g.guarded.begin(), g.guarded.end());
  if (keys.empty()) return;
  watch(keys);
  for (auto const key : keys) wire->add({"EXISTS", key});
  std::optional<error> problem;
  for (auto const key : keys) {
    auto const a = wire->next();
    if (problem) continue;
    if (a.failed()) problem = error_of(a, "cannot look for events");
    if (a.number() == 1) problem = error{errc::duplicate_event, "there is an event already: " + std::string{key}};
  }
  if (problem) throw *problem;
}

std::vector<value> transaction::state::send() {
  wire->add({"MULTI"});
  for (auto const& c : commands) wire->add(views(c));
  for (auto const& g : groups()) {
    // A command that is refused while the memory is full. Scripts are not, so without it EXEC would carry out the
    // application's commands, and the script would fail.
    wire->add({"HINCRBY", g.prefix + "figures", "seq", "0"});
    auto const rows = g.whole();  // the whole text: a name that the server does not know would split the transaction
    wire->add(script_command(all_scripts().insert.old, g.prefix, rows, /*whole=*/true));
  }
  wire->add({"EXEC"});
  std::vector<answer> queued;
  for (std::size_t i = 0; i < 1 + commands.size() + 2 * groups().size(); ++i) queued.push_back(wire->next());
  auto const done = wire->next();
  watches = false;
  return read(queued, done);
}

std::vector<value> transaction::state::read(std::vector<answer> const& queued, answer const& done) {
  auto const bad = std::ranges::find_if(queued, [](answer const& a) { return a.failed(); });
  if (bad != queued.end() || done.failed()) {
    auto const& why = bad != queued.end() ? *bad : done;
    if (moved_to(why, {})) {
      refuse(error{errc::store_failure,
                   "nothing took effect: the keys of the transaction are on another server of the cluster: " +
                       std::string{why.text()}});
    }
    refuse(error_of(why, "nothing took effect"));
  }
  if (done.nil()) {
    refuse(error{errc::unavailable, "nothing took effect: another client changed a key that the transaction watches"});
  }
  auto const written_by = [&](std::size_t i) { return done[commands.size() + 2 * i + 1]; };
  for (std::size_t i = 0; i < groups().size(); ++i) {
    auto const written = written_by(i);
    if (!written.failed()) continue;
    if (commands.empty() && groups().size() == 1) refuse(error_of_script(written, "nothing took effect"));
    auto const text = "the commands took effect, but the events were not written: " + std::string{written.text()};
    end(&spi::enlisted::committed_in_part);
    throw error{errc::store_failure, text};
  }
  std::vector<value> values;
  for (std::size_t i = 0; i < commands.size(); ++i) values.push_back(value_of(done[i]));
  for (std::size_t i = 0; i < groups().size(); ++i) groups()[i].fill_receipts(written_by(i));
  return values;
}

void transaction::state::wait_for_replicas() {
  for (auto const& g : groups()) {
    if (g.replicas > 0) check_replicas(redis::wait_for_replicas(*wire, g.replicas, g.timeout), g.replicas);
  }
}

transaction::transaction(connection& c, std::initializer_list<std::string_view> watched)
    : state_{std::make_unique<state>()} {
  c.session_->occupy();
  state_->wire = c.session_.get();
  try {
    state_->watch(watched);
  } catch (...) {
    c.session_->vacate();
    throw;
  }
}

transaction::transaction(redisContext* c, std::initializer_list<std::string_view> watched)
    : state_{std::make_unique<state>()} {
  state_->own = std::make_unique<hiredis_wire>(c);
  state_->wire = state_->own.get();
  state_->watch(watched);
}

transaction::~transaction() { rollback(); }

bool transaction::active() const noexcept { return state_->active; }

void transaction::add(std::span<word const> command) {
  if (!state_->active) throw error{errc::no_transaction, "command() after the end of the transaction"};
  if (command.empty() || command.front().text().empty())
    throw error::about(errc::invalid_option, "command", "is empty");
  if (steers(command.front().text())) {
    throw error::about(errc::invalid_option, "command",
                       "is " + command.front().text() + ", which belongs to the transaction itself");
  }
  auto& added = state_->commands.emplace_back();
  for (auto const& w : command) added.push_back(w.text());
}

std::vector<value> transaction::commit() {
  auto& s = *state_;
  if (!s.active) throw error{errc::no_transaction, "commit() after the end of the transaction"};
  try {
    s.check_ids();
  } catch (error const& e) {
    s.refuse(e);
  }
  std::vector<value> values;
  try {
    values = s.send();
    s.wait_for_replicas();
  } catch (error const& e) {
    if (!s.active) throw;  // its end is known
    s.end(&spi::enlisted::in_doubt);
    if (e.in_doubt()) throw;
    throw error{errc::commit_in_doubt, std::string{"it is unknown whether the transaction took effect: "} + e.what()};
  } catch (...) {
    if (s.active) s.end(&spi::enlisted::in_doubt);
    throw;
  }
  s.end(&spi::enlisted::committed);
  auto const failed = std::ranges::find(values, value::kind::failure, &value::what);
  if (failed != values.end()) {
    throw error{errc::store_failure,
                "command " + std::to_string(failed - values.begin() + 1) +
                    " of the transaction failed, and everything else in it took effect: " + failed->text};
  }
  return values;
}

void transaction::rollback() noexcept {
  if (!state_->active) return;
  state_->unwatch();
  state_->end(&spi::enlisted::rolled_back);
}

connection::connection(std::string const& url) : session_{std::make_unique<session>(parse_url(url))} {}
connection::~connection() = default;

value connection::run(std::span<word const> command) {
  if (!session_->line().alive()) throw error{errc::unavailable, "the connection to Redis is broken"};
  std::vector<std::string_view> texts;
  for (auto const& w : command) texts.emplace_back(w.text());
  session_->add(texts);
  auto const a = session_->next();
  if (a.failed()) throw error_of(a, "the command was refused");
  return value_of(a);
}

}  // namespace redis

transaction_ref transaction_traits<redis::transaction>::join(redis::transaction& tx) noexcept {
  static constexpr transaction_operations operations{
      .kind = "redis",
      .active = [](void const* t) noexcept { return static_cast<redis::transaction const*>(t)->active(); },
      .enlist =
          [](void* t, std::shared_ptr<transaction_observer> observer) {
            redis::transaction_access::of(*static_cast<redis::transaction*>(t)).writes.enlist(std::move(observer));
            return true;
          },
      .run =
          [](void* t, void (*use)(void*, void*), void* what) {
            redis::insert_queue& queue = redis::transaction_access::of(*static_cast<redis::transaction*>(t));
            use(what, &queue);
          }};
  return {&tx, operations};
}

}  // namespace outbox::inline v0
