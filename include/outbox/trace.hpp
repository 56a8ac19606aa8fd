// Traces across the outbox: the W3C Trace Context of a write reaches the listener and every sink.
/// \file
///
///     options.hook = outbox::trace_writes();                // write() stores the active context with the event
///     options.interceptors = {outbox::trace_deliveries()};  // the listener runs with it
///
/// The context travels as the headers `traceparent` and `tracestate` of the event. Sinks send them on under these
/// names. No tracing library is needed; the how-to page about traces shows how one is bound.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/delivery.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/hooks.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0 {

/// A span of a trace, as W3C Trace Context writes it. An immutable, valid value. Thread-safe.
class OUTBOX_CORE_EXPORT trace_context {
 public:
  /// Reads the two headers. Returns nothing if `traceparent` is not valid: not of the form "00-<32>-<16>-<2>" in small
  /// hexadecimal digits, version ff, or an id of zeros. Of a later version only these fields are read.
  ///
  /// A `tracestate` that is not valid or has more than 32 members is left out. Of one with more than 512 characters
  /// members are left out: at first those with more than 128 characters, then the last ones.
  [[nodiscard]] static std::optional<trace_context> parse(std::string_view traceparent,
                                                          std::string_view tracestate = {});

  /// The first span of a new trace, with ids from the random numbers of the system.
  [[nodiscard]] static trace_context start(bool sampled = true);

  /// A new span of the same trace, with this one as its parent. For programs that have no tracing library.
  [[nodiscard]] trace_context child() const;

  [[nodiscard]] std::string_view trace_id() const noexcept;  ///< 32 hexadecimal digits.
  [[nodiscard]] std::string_view span_id() const noexcept;   ///< 16 hexadecimal digits.
  [[nodiscard]] bool sampled() const noexcept;               ///< The caller may have recorded it.

  [[nodiscard]] std::string traceparent() const;                                   ///< In version 00.
  [[nodiscard]] std::string const& tracestate() const noexcept { return state_; }  ///< Empty: none.

  [[nodiscard]] bool operator==(trace_context const&) const = default;

 private:
  trace_context(std::string_view trace_id, std::string_view span_id, char flags, std::string state) noexcept;

  std::array<char, 55> parent_;  ///< As `traceparent`. An array, so that a context that was moved from is one still.
  std::string state_;
};

/// The context that an event was written with. Nothing if it has none, or one that is not valid.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<trace_context> trace_of(event const& e);
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<trace_context> trace_of(delivery const& d);

/// Makes a context the active one of the calling thread while the object lives; `std::nullopt`: there is none. Objects
/// of one thread are destroyed in reverse order, on that thread.
class OUTBOX_CORE_EXPORT trace_scope {
 public:
  explicit trace_scope(std::optional<trace_context> context) noexcept;
  trace_scope(trace_scope const&) = delete;
  trace_scope& operator=(trace_scope const&) = delete;
  ~trace_scope();

 private:
  std::optional<trace_context> const context_;
  trace_scope const* const before_;

  friend std::optional<trace_context> current_trace();
};

/// Returns the context of the innermost `trace_scope` of the calling thread.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<trace_context> current_trace();

/// Returns the active context of the calling thread: `current_trace`, or a function that asks a tracing library.
using trace_source = std::function<std::optional<trace_context>()>;

/// Everything about `trace_writes` that has a default.
struct trace_write_options {
  /// Where the active context comes from. Default `current_trace`. It runs on the threads that write.
  trace_source current = current_trace;

  /// Another hook, because a node has one. Default: none. It is called first, so events that it adds get the context
  /// too.
  std::shared_ptr<writer_hook> next{};

  /// The limits of the node. Default: those of an event. An event that would be over them with the context is written
  /// without it.
  event_limits limits{};
};

/// Returns a hook that gives each event the active context as the headers `traceparent` and `tracestate`. An event that
/// has a `traceparent` keeps what it has. Throws `error` (invalid_option) if `current` is empty.
///
/// It never makes a write fail: without an active context, and if `current` throws, events are written as they are. It
/// copies each event that it changes, the payload too.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<writer_hook> trace_writes(trace_write_options options = {});

/// Makes a context active in a tracing library. Called on the worker's thread just before the listener; what it returns
/// is destroyed there when the listener's function has returned. `nullopt`: the event has no context. An exception is
/// ignored, and the listener runs without a context.
using trace_activation = std::function<std::shared_ptr<void>(delivery const&, std::optional<trace_context> const&)>;

/// Returns an interceptor that makes the context of the event the active one while the listener's function runs.
/// Default: by a `trace_scope`. So a listener that writes another event goes on with the trace if its node has
/// `trace_writes`.
///
/// The function of an asynchronous listener returns before its work ends: pass `trace_of(d)` on, and make a
/// `trace_scope` where the work goes on. A batch has several contexts: its listener asks `trace_of` for each event.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<interceptor> trace_deliveries(trace_activation activate = {});

}  // namespace outbox::inline v0
