// The answer of a listener that does not wait for what it started.
#pragma once

#include <memory>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/result.hpp>
#include <string>

namespace outbox::inline v0 {

namespace detail {

/// Where one answer goes. Told once: `answer` or `dropped`.
class OUTBOX_CORE_EXPORT answer_slot {
 public:
  answer_slot() = default;
  answer_slot(answer_slot const&) = delete;
  answer_slot& operator=(answer_slot const&) = delete;
  virtual ~answer_slot();

  /// Without `progress` the row remembers what it remembered.
  virtual void answer(result&& r, std::optional<std::string>&& progress) noexcept = 0;
  virtual void dropped() noexcept = 0;

  /// What is done so far, in case that the answer never comes.
  virtual void remember(std::string&& progress) noexcept = 0;
};

}  // namespace detail

class shared_completion;

/// Given to an asynchronous listener, which answers by calling it: once, from any thread, during the call or after.
///
/// Answering never blocks on I/O and never throws. One that is dropped without an answer means `failed`. The call's
/// timeout runs until the answer; what comes later, or after the node has stopped, is ignored. It may outlive the node.
/// Not for concurrent use itself: see `share()`.
///
/// What the listener was called with, the event struct and the `delivery`, ends with the call: copy what you need
/// later.
class OUTBOX_CORE_EXPORT completion {
 public:
  completion() noexcept = default;  ///< Empty: answers to nobody.
  explicit completion(std::unique_ptr<detail::answer_slot> slot) noexcept : slot_{std::move(slot)} {}
  completion(completion&&) noexcept = default;
  completion& operator=(completion&& other) noexcept;
  ~completion();

  /// Answers. A second answer is ignored.
  void operator()(result r) noexcept;

  /// True while it owes an answer.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

  /// For several hands, of which the first to answer counts.
  [[nodiscard]] shared_completion share() &&;

  /// For a C callback's `void*`: what is released must be adopted, exactly once.
  [[nodiscard]] void* release() noexcept { return slot_.release(); }
  [[nodiscard]] static completion adopt(void* released) noexcept;

 private:
  std::unique_ptr<detail::answer_slot> slot_;
};

/// A completion that can be copied and used from several threads at once. It counts as dropped when the last copy is
/// gone. One that was moved from does nothing.
class OUTBOX_CORE_EXPORT shared_completion {
 public:
  explicit shared_completion(completion c);

  void operator()(result r) const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0
