// How an asynchronous listener reports its result later.
#pragma once

#include <memory>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/result.hpp>
#include <string>

namespace outbox::inline v0 {

namespace detail {

/// Where one result goes. Either `answer` or `dropped` is called, once.
class OUTBOX_CORE_EXPORT answer_slot {
 public:
  answer_slot() = default;
  answer_slot(answer_slot const&) = delete;
  answer_slot& operator=(answer_slot const&) = delete;
  virtual ~answer_slot();

  /// If `progress` is empty, the stored progress is unchanged.
  virtual void answer(result&& r, std::optional<std::string>&& progress) noexcept = 0;
  virtual void dropped() noexcept = 0;

  /// Keeps what is done so far, in case the result never comes.
  virtual void remember(std::string&& progress) noexcept = 0;
};

}  // namespace detail

class shared_completion;

/// An asynchronous listener receives it and calls it with the result: once, from any thread, during the call or later.
///
/// Use from one thread at a time; see `share()`. Calling it never blocks on I/O and never throws.
///
/// It may outlive the node. Destroying it without a result means `failed`. The timeout of the call runs until the
/// result; a result that comes later, or after the node has stopped, is ignored. The event struct and the `delivery` of
/// the call end with the call: copy what is needed later.
class OUTBOX_CORE_EXPORT completion {
 public:
  completion() noexcept = default;  ///< Empty: a result goes nowhere.
  explicit completion(std::unique_ptr<detail::answer_slot> slot) noexcept : slot_{std::move(slot)} {}
  completion(completion&&) noexcept = default;
  completion& operator=(completion&& other) noexcept;
  ~completion();

  /// Reports the result. A second one is ignored.
  void operator()(result r) noexcept;

  /// True until the result is reported.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

  /// Returns a completion that several threads may use; the first result counts.
  [[nodiscard]] shared_completion share() &&;

  /// For the `void*` of a C callback. A released completion must be adopted exactly once.
  [[nodiscard]] void* release() noexcept { return slot_.release(); }
  [[nodiscard]] static completion adopt(void* released) noexcept;

 private:
  std::unique_ptr<detail::answer_slot> slot_;
};

/// A completion that can be copied. Thread-safe. Destroying the last copy without a result means `failed`. One that was
/// moved from does nothing.
class OUTBOX_CORE_EXPORT shared_completion {
 public:
  explicit shared_completion(completion c);

  void operator()(result r) const noexcept;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0
