// One trace, from a request through two events to a receiver outside: W3C Trace Context without a tracing library.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sinks/json_lines.hpp>
#include <outbox/trace.hpp>
#include <string>
#include <thread>
#include <vector>

#include "example_files.hpp"

// The part of a tracing library that this example needs: it keeps the spans. Thread-safe.
class span_book {
 public:
  // A new span below its parent.
  outbox::trace_context begin(std::string name, outbox::trace_context const& parent) {
    auto const own = parent.child();
    std::lock_guard const lock{mutex_};
    spans_.push_back({std::move(name), std::string{parent.span_id()}, own});
    return own;
  }

  void print_below(std::string_view parent, int depth) const {
    for (auto const& s : spans_) {
      if (s.parent != parent) continue;
      std::printf("%*s%s\n", 2 * depth, "", s.name.c_str());
      print_below(s.own.span_id(), depth + 1);
    }
  }

  bool all_belong_to(std::string_view trace) const {
    return std::all_of(spans_.begin(), spans_.end(), [&](span const& s) { return s.own.trace_id() == trace; });
  }

 private:
  struct span {
    std::string name, parent;
    outbox::trace_context own;
  };
  std::mutex mutex_;
  std::vector<span> spans_;
};

int main() {
  span_book spans;
  auto const lines = fresh_file("follow-a-trace.jsonl");
  auto const store = outbox::memory::open();
  outbox::node* self = nullptr;

  // The listener runs with the context of the request. What it writes continues the trace.
  outbox::listeners listeners;
  listeners.on("order.placed", [&](outbox::delivery const& d) {
    auto const parent = outbox::current_trace();
    must(parent == outbox::trace_of(d), "the listener has the context of the event");
    outbox::trace_scope const span{spans.begin("listener of order.placed", parent.value())};
    outbox::memory::transaction tx{*store};
    self->writer().write(tx, "stock.reserved", R"({"order":"42"})");
    tx.commit();
  });
  listeners.on("stock.reserved", outbox::publish(outbox::json_lines::open({.path = lines}), {.topic = "stock"}));

  outbox::single_node_options options{.store = store, .listeners = std::move(listeners), .log = nullptr};
  options.hook = outbox::trace_writes();
  options.interceptors = {outbox::trace_deliveries()};
  auto box = outbox::single_node(std::move(options));
  self = &box;
  box.start();

  // A request arrives, with the header that the browser sent.
  auto const browser =
      outbox::trace_context::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "shop=7");
  {
    outbox::trace_scope const request{spans.begin("POST /orders", browser.value())};
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "order.placed", R"({"order":"42"})");
    tx.commit();
  }
  while (box.counters().delivered < 2) std::this_thread::yield();
  box.stop();

  // A receiver outside reads the message, and goes on.
  std::ifstream in{lines};
  std::string line;
  must(static_cast<bool>(std::getline(in, line)), "the sink has the second event");
  auto const headers = nlohmann::json::parse(line).at("headers");
  auto const received = outbox::trace_context::parse(headers.at("traceparent").get<std::string>(),
                                                     headers.at("tracestate").get<std::string>());
  must(received.has_value(), "the message carries a valid context");
  must(received->tracestate() == "shop=7", "and what the browser's vendor added");
  spans.begin("receiver of stock.reserved", *received);

  must(spans.all_belong_to(browser->trace_id()), "all spans belong to one trace");
  std::printf("trace %s\nbrowser\n", std::string{browser->trace_id()}.c_str());
  spans.print_below(browser->span_id(), 1);
}
