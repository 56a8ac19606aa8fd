// The code of the how-to pages on production, codecs, hooks and modes, one function per page. Each function checks what
// its page says, runs the page's listeners on several threads, and prints a line.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support.hpp"

using namespace std::chrono_literals;
using docs::check;
using docs::fixture;
using docs::service;
using docs::strings;

namespace {

// ---- production.md

struct http_reply {
  int status;
  std::string body;
};

// A restart helps only a process whose node does not run. It does not repair a database.
http_reply live(outbox::node const& box) {
  auto const h = box.health();
  return h.running ? http_reply{200, "running\n"} : http_reply{503, h.reason + "\n"};
}

// A standby is ready: it accepts writes, and takes over when the active node ends.
http_reply ready(outbox::node const& box) {
  auto const h = box.health();
  if (!h.healthy) return {503, h.reason + "\n"};
  return {200, h.active ? "delivering\n" : "standing by\n"};
}

// Passes the node's lines to the log of the service. It has a lock because every node that uses it calls it.
class journal {
 public:
  void add(outbox::log_line const& line) {
    if (line.level == outbox::log_level::debug) return;
    std::lock_guard const lock{mutex_};
    lines_.push_back(std::string{outbox::name(line.level)} + " " + line.text());
  }
  [[nodiscard]] std::size_t size() const {
    std::lock_guard const lock{mutex_};
    return lines_.size();
  }

 private:
  mutable std::mutex mutex_;
  strings lines_;
};

outbox::multi_node_options worker(std::shared_ptr<outbox::store> store, outbox::listeners listeners,
                                  std::string instance, journal& lines) {
  outbox::multi_node_options options{.store = std::move(store), .listeners = std::move(listeners)};
  options.name = std::move(instance);                  // appears in outbox_node and in every log line
  options.unroutable = outbox::unroutable::defer;      // an old version leaves new event types to the new version
  options.stop_queued = outbox::stop_queued::release;  // the other nodes take over queued events at once
  options.stop_timeout = 20s;                          // shorter than the grace period of the supervisor
  options.purge = outbox::purge_options{.keep = 72h};  // without it the table only grows
  options.log = [&lines](outbox::log_line const& line) { lines.add(line); };
  return options;
}

void standby_is_ready() {
  auto const store = outbox::memory::open();
  auto const options = [&] { return outbox::single_node_options{.store = store, .log = nullptr}; };
  auto first = outbox::single_node(options());
  check(live(first).status == 503 && ready(first).status == 503, "a node that was not started is neither");
  first.start();
  docs::wait_for([&] { return ready(first).body == "delivering\n"; }, "the first node delivers");

  auto second = outbox::single_node(options());
  second.start();
  check(live(second).status == 200 && ready(second).status == 200, "a standby is live and ready");
  check(ready(second).body == "standing by\n", "and says that it stands by");
  first.stop();
  docs::wait_for([&] { return ready(second).body == "delivering\n"; }, "the second node takes over");
  check(live(first).status == 503, "a stopped node is not live");
}

void old_and_new_version() {
  auto const store = outbox::memory::open();
  journal lines;
  auto old_version = outbox::multi_node(worker(store, {}, "shop-1", lines));
  outbox::listeners listeners;
  std::atomic<int> calls = 0;
  listeners.on("invoice.sent", [&calls](outbox::delivery const&) { ++calls; });
  auto new_version = outbox::multi_node(worker(store, std::move(listeners), "shop-2", lines));
  old_version.start();
  new_version.start();
  {
    outbox::memory::transaction tx{*store};
    old_version.writer().write(tx, "invoice.sent", "1");
    tx.commit();
  }
  docs::wait_for([&] { return old_version.counters().deferred + new_version.counters().delivered > 0; },
                 "the event is deferred or delivered");
  check(store->inspect().counts().dead == 0, "the old version does not make it DEAD");
  check(old_version.stop() && new_version.stop(), "both nodes stop");
  check(lines.size() > 0, "the journal has lines");
}

void production() {
  standby_is_ready();
  old_and_new_version();
  std::printf("production: live, ready, deployed\n");
}

// ---- codecs.md

struct parcel_shipped {
  static constexpr std::string_view event_type = "parcel.shipped";
  static constexpr std::string_view aggregate_type = "parcel";
  using outbox_codec = outbox::json;
  std::string parcel;
  std::int64_t grams = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel_shipped, parcel, grams)

struct reading {
  static constexpr std::string_view event_type = "sensor.reading";
  std::uint32_t value = 0;
};

}  // namespace

// Four bytes, the most significant byte first.
template <>
struct outbox::codec<reading> {
  static encoded encode(reading const& r) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((r.value >> shift) & 0xFF);
    return {.payload = bytes, .kind = payload_kind::bytes, .content_type = "application/vnd.shop.reading"};
  }
  static reading decode(event const& e) {
    if (e.content_type() != "application/vnd.shop.reading") throw std::invalid_argument{"not a reading"};
    if (e.payload().size() != 4) throw std::length_error{"a reading has four bytes"};
    reading r;
    for (char const byte : e.payload()) r.value = r.value << 8 | static_cast<unsigned char>(byte);
    return r;
  }
};

namespace {

enum class order_event { placed, cancelled };

std::string_view outbox_name(order_event e) {
  switch (e) {
    case order_event::placed: return "order.placed";
    case order_event::cancelled: return "order.cancelled";
  }
  return "order.unknown";
}

outbox::listeners typed(std::atomic<std::int64_t>& grams, std::atomic<std::uint32_t>& last) {
  outbox::listeners listeners;
  listeners.on<parcel_shipped>([&grams](parcel_shipped const& e) { grams += e.grams; });
  listeners.on<reading>([&last](reading const& r) { last = r.value; });
  listeners.on(order_event::placed, [&grams](outbox::delivery const& d) {
    grams += outbox::decode<parcel_shipped>(d.event).grams;  // throws permanent_failure: the event becomes DEAD
  });
  return listeners;
}

void typed_values() {
  fixture t;
  std::atomic<std::int64_t> grams = 0;
  std::atomic<std::uint32_t> last = 0;
  auto box = outbox::single_node(t.options(typed(grams, last)));
  box.run_until_idle();
  auto const writer = box.writer();
  auto const& store = t.store;
  {
    outbox::memory::transaction tx{*store};
    writer.write(tx, parcel_shipped{.parcel = "p1", .grams = 250});
    writer.write(tx, reading{.value = 0x01020304}, {.id = "bytes"});
    writer.write(tx, order_event::placed, R"({"parcel":"p2","grams":50})");

    auto const picture = std::string{"\x89PNG\0", 5};
    writer.write(tx, outbox::event::bytes("picture.taken", picture, "image/png", {.id = "picture"}, writer.limits()));
    tx.commit();
  }
  box.run_until_idle();
  check(grams == 300 && last == 0x01020304, "each codec reads what it wrote");
  check(t.row("bytes").event.payload() == std::string("\1\2\3\4", 4), "bytes are kept as they are");
  check(t.row("picture").event.content_type() == "image/png", "and so is their content type");
}

void payloads_that_cannot_be_decoded() {
  fixture t;
  std::atomic<std::int64_t> grams = 0;
  std::atomic<std::uint32_t> last = 0;
  auto box = outbox::single_node(t.options(typed(grams, last)));
  box.run_until_idle();
  t.write(box, "sensor.reading", "text", R"("17")");
  t.write(box, "order.placed", "incomplete", R"({"parcel":"p3"})");
  box.run_until_idle();
  check(t.row("text").status == outbox::event_status::dead, "another content type is DEAD");
  check(t.row("text").last_error == "cannot decode the payload of 'sensor.reading': not a reading", "and says why");
  check(t.row("incomplete").status == outbox::event_status::dead, "a missing member is DEAD");

  bool refused = false;
  try {
    outbox::memory::transaction tx{*t.store};
    box.writer().write(tx, parcel_shipped{.parcel = "\xff", .grams = 1});
  } catch (outbox::error const& e) {
    refused = e.code() == outbox::errc::invalid_event && e.field() == "payload";
  }
  check(refused, "text that is not UTF-8 is refused when it is written");
}

void place_order(outbox::node const& box, outbox::memory::transaction& tx) {
  auto headers = outbox::make_headers({.topic = "shop.orders", .schema_version = 2});
  box.writer().write(tx, "order.placed", R"({"order":"42"})", {.headers = std::move(headers)});
}

outbox::listeners versioned(std::atomic<std::int64_t>& cents) {
  outbox::listeners listeners;
  listeners.on("invoice.sent", [&cents](outbox::delivery const& d) {
    bool const in_cents = outbox::schema_version_of(d).value_or(1) >= 2;  // the first version had no header
    cents += std::stoll(d.event.payload()) * (in_cents ? 1 : 100);
  });
  return listeners;
}

void topics_and_versions() {
  fixture t;
  std::atomic<std::int64_t> cents = 0;
  auto listeners = versioned(cents);
  std::string told;
  listeners.on("order.placed", [&told](outbox::delivery const& d) {
    told =
        std::string{outbox::required_topic(d.event)} + "/" + std::to_string(outbox::required_schema_version(d.event));
  });
  auto box = outbox::single_node(t.options(std::move(listeners)));
  box.run_until_idle();
  outbox::memory::transaction tx{*t.store};
  place_order(box, tx);
  box.writer().write(tx, "invoice.sent", "12");
  box.writer().write(tx, "invoice.sent", "1250", {.headers = outbox::make_headers({.schema_version = 2})});
  tx.commit();
  box.run_until_idle();
  check(told == "shop.orders/2", "the listener has both");
  check(cents == 2450, "old and new payloads are understood");
}

void codecs() {
  typed_values();
  topics_and_versions();
  payloads_that_cannot_be_decoded();
  std::atomic<std::int64_t> grams = 0;
  std::atomic<std::uint32_t> last = 0;
  service s{typed(grams, last)};
  s.write("parcel.shipped", R"({"parcel":"p","grams":2})", "parcel");
  check(s.finish().delivered == service::many && grams == 2 * service::many, "several threads decode at once");
  std::printf("codecs: structs, enums, bytes\n");
}

// ---- hooks-and-interceptors.md

// The user that the current thread works for.
thread_local std::string current_user;

// The same event with one header more.
outbox::event with_header(outbox::event const& e, std::string const& name, std::string value) {
  auto record = e.record();
  record.headers.insert_or_assign(name, std::move(value));
  return outbox::event::restore(std::move(record));  // the node checks its limits again
}

// Adds the current user to every event, and counts what was committed. Every thread that writes calls it.
class user_writer final : public outbox::writer_hook {
 public:
  std::vector<outbox::event> before_write(std::vector<outbox::event> events) override {
    for (auto& e : events) e = with_header(e, "user", current_user);
    return events;
  }
  void after_commit(std::span<outbox::event const> events) override { committed += events.size(); }

  std::atomic<std::size_t> committed = 0;
};

// Refuses events of one type while a switch is off: `write()` then returns an id that tests false.
class feature_switch final : public outbox::writer_hook {
 public:
  std::vector<outbox::event> before_write(std::vector<outbox::event> events) override {
    if (!on) std::erase_if(events, [](outbox::event const& e) { return e.type() == "newsletter.wanted"; });
    return events;
  }

  std::atomic<bool> on = false;
};

// Makes a user the current one of a thread, until it is destroyed on that thread.
class user_scope {
 public:
  explicit user_scope(std::string user) : before_{std::exchange(current_user, std::move(user))} {}
  user_scope(user_scope const&) = delete;
  user_scope& operator=(user_scope const&) = delete;
  ~user_scope() { current_user = before_; }

 private:
  std::string before_;
};

// Makes the user of an event the current one while its listener runs. Several workers call it at once.
class user_listener final : public outbox::interceptor {
 public:
  std::shared_ptr<void> around(outbox::delivery const& d) override {
    auto const& headers = d.event.headers();
    auto const found = headers.find("user");
    return std::make_shared<user_scope>(found == headers.end() ? std::string{} : found->second);
  }
};

void hooks_around_writes() {
  fixture t;
  auto const hook = std::make_shared<user_writer>();
  outbox::listeners listeners;
  std::string seen;
  listeners.on("order.placed", [&seen](outbox::delivery const&) { seen = current_user; });
  auto options = t.options(std::move(listeners));
  options.hook = hook;
  options.interceptors.push_back(std::make_shared<user_listener>());
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  {
    user_scope const request{"ada"};
    t.write(box, "order.placed", "a");
  }
  box.run_until_idle();
  check(seen == "ada" && current_user.empty(), "the listener works for the user of the writer");
  check(hook->committed == 1, "after_commit was called");

  auto const gate = std::make_shared<feature_switch>();
  auto const only = outbox::writer_only({.store = t.store, .hook = gate, .log = nullptr});
  outbox::memory::transaction tx{*t.store};
  auto const id = only.writer().write(tx, "newsletter.wanted", "1");
  check(!id, "nothing was written");
  gate->on = true;
  check(static_cast<bool>(only.writer().write(tx, "newsletter.wanted", "1")), "now it is");
}

void interceptors_around_deliveries() {
  fixture t;
  std::atomic<bool> maintenance = true;
  std::atomic<int> slow = 0;
  outbox::listeners listeners;
  std::atomic<int> calls = 0;
  listeners.on("order.placed", [&calls](outbox::delivery const&) { ++calls; });
  auto options = t.options(std::move(listeners));
  options.interceptors.push_back(outbox::intercept_before([&maintenance](outbox::delivery const&) {
    if (maintenance) throw outbox::failure{"maintenance", 5min};  // counted; the listener is not called
  }));
  options.interceptors.push_back(outbox::intercept_after([&slow](outbox::delivery const& d, outbox::result const&) {
    if (d.attempt > 1) ++slow;
  }));
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  t.write(box, "order.placed", "a");
  box.run_until_idle();
  check(calls == 0 && t.row("a").attempts == 1, "the interceptor answered instead of the listener");
  maintenance = false;
  t.clock->advance(5min);
  box.run_until_idle();
  check(calls == 1 && slow == 1, "then the listener is called");
}

void hooks_and_interceptors() {
  hooks_around_writes();
  interceptors_around_deliveries();
  std::printf("hooks-and-interceptors: around writes, around deliveries\n");
}

// ---- choose-a-mode.md

void choose_a_mode() {
  auto const store = outbox::memory::open();
  auto const listen = [](auto& options, std::atomic<int>& calls) {
    options.listeners.on("order.placed", [&calls](outbox::delivery const&) { ++calls; });
  };
  std::atomic<int> calls = 0;
  {
    outbox::single_node_options options{.store = store, .log = nullptr};
    listen(options, calls);
    auto box = outbox::single_node(std::move(options));  // one process delivers; a second one stands by
    box.run_until_idle();

    outbox::multi_node_options other{.store = store, .log = nullptr};
    auto refused = outbox::multi_node(std::move(other));
    try {
      refused.start();
      check(false, "two modes must not share a table");
    } catch (outbox::error const& e) {
      check(e.code() == outbox::errc::mode_conflict, "the second node is refused");
    }
    box.stop();
  }
  {
    outbox::multi_node_options options{.store = store, .log = nullptr};
    listen(options, calls);
    auto box = outbox::multi_node(std::move(options));                       // any number of processes deliver
    auto const web = outbox::writer_only({.store = store, .log = nullptr});  // this process only writes
    {
      outbox::memory::transaction tx{*store};
      web.writer().write(tx, "order.placed", "1");
      tx.commit();
    }
    check(box.run_until_idle() == 1 && calls == 1, "a node of another mode delivers what writer_only wrote");
    box.stop();
  }
  std::printf("choose-a-mode: one mode per table\n");
}

int run_all() {
  try {
    production();
    codecs();
    hooks_and_interceptors();
    choose_a_mode();
    return 0;
  } catch (std::exception const& e) {
    std::printf("does not hold: %s\n", e.what());
    return 1;
  }
}

}  // namespace

int main() { return run_all(); }
