// The context of a trace on its way from a write to a listener.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/trace.hpp>

namespace outbox::inline v0 {
namespace {

constexpr std::string_view parent_name = "traceparent";
constexpr std::string_view state_name = "tracestate";

thread_local trace_scope const* innermost = nullptr;

class write_tracer final : public writer_hook {
 public:
  explicit write_tracer(trace_write_options o) : options_{std::move(o)} {
    if (!options_.current) throw error::about(errc::invalid_option, "current", "is an empty function");
  }

  std::vector<event> before_write(std::vector<event> events) override {
    if (options_.next) events = options_.next->before_write(std::move(events));
    if (auto const context = active()) {
      for (auto& e : events) {
        if (wants(e, *context)) e = with(e, *context);
      }
    }
    return events;
  }
  void after_write(std::span<event const> events) override {
    if (options_.next) options_.next->after_write(events);
  }
  void after_commit(std::span<event const> events) override {
    if (options_.next) options_.next->after_commit(events);
  }
  void after_rollback(std::span<event const> events) override {
    if (options_.next) options_.next->after_rollback(events);
  }

 private:
  [[nodiscard]] std::optional<trace_context> active() const noexcept {
    try {
      return options_.current();
    } catch (...) {
      return std::nullopt;
    }
  }

  // A `tracestate` alone means nothing: it is replaced.
  [[nodiscard]] bool wants(event const& e, trace_context const& c) const {
    if (!e || e.headers().contains(parent_name)) return false;
    bool const state = !c.tracestate().empty();
    auto const bytes = parent_name.size() + c.traceparent().size() +
                       (state ? state_name.size() + c.tracestate().size() : std::size_t{0});
    return e.headers().size() + (state ? 2 : 1) <= options_.limits.header_count &&
           e.record().header_bytes + bytes <= options_.limits.header_bytes;
  }

  [[nodiscard]] static event with(event const& e, trace_context const& c) {
    auto r = e.record();
    r.headers.erase(std::string{state_name});
    r.headers.emplace(parent_name, c.traceparent());
    if (!c.tracestate().empty()) r.headers.emplace(state_name, c.tracestate());
    return event::restore(std::move(r));
  }

  trace_write_options const options_;
};

class delivery_tracer final : public interceptor {
 public:
  explicit delivery_tracer(trace_activation f) : activate_{std::move(f)} {}

  std::shared_ptr<void> around(delivery const& d) override {
    try {
      auto context = trace_of(d);
      if (!activate_) return std::make_shared<trace_scope>(std::move(context));
      return activate_(d, context);
    } catch (...) {
      return nullptr;
    }
  }

 private:
  trace_activation const activate_;
};

}  // namespace

std::optional<trace_context> trace_of(event const& e) {
  auto const parent = e.headers().find(parent_name);
  if (parent == e.headers().end()) return std::nullopt;
  auto const state = e.headers().find(state_name);
  return trace_context::parse(parent->second,
                              state == e.headers().end() ? std::string_view{} : std::string_view{state->second});
}

std::optional<trace_context> trace_of(delivery const& d) { return trace_of(d.event); }

trace_scope::trace_scope(std::optional<trace_context> context) noexcept
    : context_{std::move(context)}, before_{std::exchange(innermost, this)} {}

trace_scope::~trace_scope() { innermost = before_; }

std::optional<trace_context> current_trace() { return innermost == nullptr ? std::nullopt : innermost->context_; }

std::shared_ptr<writer_hook> trace_writes(trace_write_options options) {
  return std::make_shared<write_tracer>(std::move(options));
}

std::shared_ptr<interceptor> trace_deliveries(trace_activation activate) {
  return std::make_shared<delivery_tracer>(std::move(activate));
}

}  // namespace outbox::inline v0
