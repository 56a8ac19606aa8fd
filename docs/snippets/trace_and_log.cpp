// The code of the pages about traces and logs.
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <outbox/system_log.hpp>
#include <outbox/trace.hpp>

#include "support.hpp"

namespace {

using docs::check;
using docs::fixture;

// ---- trace.md

using http_headers = std::map<std::string, std::string>;

outbox::single_node_options traced(outbox::single_node_options options) {
  options.hook = outbox::trace_writes();                // write() stores the active context with the event
  options.interceptors = {outbox::trace_deliveries()};  // the listener runs with it
  return options;
}

// What a web service does with a request that brings the two headers.
void place_order(outbox::node const& box, outbox::store& store, http_headers& request) {
  auto const caller = outbox::trace_context::parse(request["traceparent"], request["tracestate"]);
  outbox::trace_scope const active{caller ? caller->child() : outbox::trace_context::start()};
  outbox::memory::transaction tx{store};
  box.writer().write(tx, "order.placed", R"({"order":"42"})");
  tx.commit();
}

// The threads of a client library.
class thread_pool {
 public:
  template <class F>
  void submit(F f) {
    std::lock_guard const lock{mutex_};
    work_.push_back(std::async(std::launch::async, std::move(f)));
  }
  void finish() {
    std::lock_guard const lock{mutex_};
    work_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::future<void>> work_;
};

void charge() { check(outbox::current_trace().has_value(), "the work goes on with the trace"); }

void add_asynchronous(outbox::listeners& listeners, thread_pool& pool) {
  listeners.on("order.placed", [&pool](outbox::delivery const& d, outbox::completion answer) {
    pool.submit([context = outbox::trace_of(d), answer = std::move(answer)]() mutable {
      outbox::trace_scope const active{context};  // on the thread that does the work
      charge();
      answer(outbox::done);
    });
  });
}

// Stands for a tracing library: it knows the active span of a thread, and what to send to continue it elsewhere.
namespace telemetry {

thread_local std::string active_parent;

struct propagated {
  std::string traceparent, tracestate;
};
propagated inject() { return {active_parent, ""}; }

// Begins a span and makes it the active one of the thread, until it is destroyed there.
class active_span {
 public:
  active_span(std::string const& /*name*/, propagated const& parent)
      : before_{std::exchange(active_parent, parent.traceparent)} {}
  active_span(active_span const&) = delete;
  active_span& operator=(active_span const&) = delete;
  ~active_span() { active_parent = before_; }

 private:
  std::string before_;
};

}  // namespace telemetry

void bind_a_library(outbox::single_node_options& options) {
  options.hook = outbox::trace_writes({.current = [] {
    auto const active = telemetry::inject();
    return outbox::trace_context::parse(active.traceparent, active.tracestate);
  }});
  options.interceptors = {outbox::trace_deliveries(
      [](outbox::delivery const& d, std::optional<outbox::trace_context> const& parent) -> std::shared_ptr<void> {
        telemetry::propagated from;
        if (parent) from = {parent->traceparent(), parent->tracestate()};
        return std::make_shared<telemetry::active_span>("deliver " + d.event.type(), from);
      })};
}

constexpr char const* a_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

void without_a_library() {
  fixture t;
  outbox::listeners listeners;
  std::optional<outbox::trace_context> seen;
  listeners.on("order.placed", [&seen](outbox::delivery const&) { seen = outbox::current_trace(); });
  auto box = outbox::single_node(traced(t.options(std::move(listeners))));
  box.run_until_idle();
  http_headers request{{"traceparent", a_parent}};
  place_order(box, *t.store, request);
  box.run_until_idle();
  check(seen && seen->trace_id() == "0af7651916cd43dd8448eb211c80319c", "the listener has the trace of the request");
  check(seen->span_id() != "b7ad6b7169203331", "and the span of the service as its parent");
}

void on_other_threads() {
  thread_pool pool;
  auto const store = outbox::memory::open();
  outbox::listeners listeners;
  add_asynchronous(listeners, pool);
  auto box = outbox::single_node(traced({.store = store, .listeners = std::move(listeners), .log = nullptr}));
  box.start();
  http_headers request{{"traceparent", a_parent}};
  for (int i = 0; i < 20; ++i) place_order(box, *store, request);
  docs::wait_for([&] { return box.counters().delivered == 20; }, "every event is delivered");
  check(box.stop(), "the node stops in time");
  pool.finish();
}

void with_a_library() {
  fixture t;
  outbox::listeners listeners;
  std::string seen;
  listeners.on("order.placed", [&seen](outbox::delivery const&) { seen = telemetry::active_parent; });
  auto options = t.options(std::move(listeners));
  bind_a_library(options);
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  {
    telemetry::active_span const request{"POST /orders", {a_parent, ""}};
    t.write(box, "order.placed", "a");
  }
  box.run_until_idle();
  check(seen == a_parent && telemetry::active_parent.empty(), "the library has the context during the call only");
}

// ---- logging.md

// Keeps the lines that are about an event, by its id. A lock, because several nodes may share it.
class event_log {
 public:
  void add(outbox::log_line const& line) {
    for (auto const& [key, value] : line.fields) {
      if (key != "event") continue;
      std::lock_guard const lock{mutex_};
      lines_[std::string{value}].push_back(line.text());
    }
  }
  [[nodiscard]] std::size_t about(std::string const& event) {
    std::lock_guard const lock{mutex_};
    return lines_[event].size();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, docs::strings> lines_;
};

void to_the_system(outbox::single_node_options& options) {
  options.log = outbox::log_to_journal();
  options.log = outbox::log_to_syslog("shop");
}

void as_text(outbox::single_node_options& options) {
  options.log = [](outbox::log_line const& line) { std::clog << line.text() << '\n'; };
}

void lines_of_an_event() {
  fixture t;
  event_log lines;
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const&) -> outbox::result { return outbox::dead{"no stock"}; });
  auto options = t.options(std::move(listeners));
  to_the_system(options);
  as_text(options);
  options.log = [&lines](outbox::log_line const& line) { lines.add(line); };
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  t.write(box, "order.placed", "a");
  box.run_until_idle();
  check(lines.about("a") == 1, "the line about the dead event is found by its id");
}

}  // namespace

int main() {
  without_a_library();
  on_other_threads();
  with_a_library();
  std::printf("trace: by our own context, on other threads, by a library\n");
  lines_of_an_event();
  std::printf("logging: found by the id of an event\n");
}
