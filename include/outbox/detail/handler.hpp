// Listeners with their types gone. Not for users.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/codec.hpp>
#include <outbox/completion.hpp>
#include <outbox/delivery.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/result.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace outbox::inline v0::detail {

/// The node's side of one call.
class OUTBOX_CORE_EXPORT call {
 public:
  call() = default;
  call(call const&) = delete;
  call& operator=(call const&) = delete;
  virtual ~call();

  std::string progress{};  ///< What the row remembers, and will remember.

  /// At most once; the handler then answers with nothing.
  [[nodiscard]] virtual completion answer_later() = 0;

  /// What is done so far, in case that the answer comes too late.
  virtual void remember(std::string so_far) = 0;
};

/// May hold a move-only callable. Called by several threads at once.
class OUTBOX_CORE_EXPORT handler {
 public:
  handler() = default;
  handler(handler const&) = delete;
  handler& operator=(handler const&) = delete;
  virtual ~handler();

  /// Nothing: the answer comes through `c.answer_later()`.
  virtual std::optional<result> handle(delivery const& d, call& c) = 0;

  /// True if a retry relies on the progress that the last attempt left in the row.
  [[nodiscard]] virtual bool needs_progress() const noexcept { return false; }
};

/// Takes several events at once; one result for each.
class OUTBOX_CORE_EXPORT batch_handler {
 public:
  batch_handler() = default;
  batch_handler(batch_handler const&) = delete;
  batch_handler& operator=(batch_handler const&) = delete;
  virtual ~batch_handler();
  virtual std::vector<result> handle(std::span<delivery const> batch) = 0;
};

/// Calls `f` and turns "returned nothing" into done.
template <class F, class... Args>
result answer_of(F& f, Args const&... args) {
  using answer = std::invoke_result_t<F&, Args const&...>;
  if constexpr (std::is_void_v<answer>) {
    std::invoke(f, args...);
    return done;
  } else {
    static_assert(std::convertible_to<answer, result>, "a listener returns nothing or an outbox::result");
    if constexpr (std::convertible_to<answer, result>) {
      return std::invoke(f, args...);
    } else {
      return done;
    }
  }
}

template <class F, class... Args>
std::optional<result> answer_later_of(F& f, call& c, Args const&... args) {
  static_assert(std::is_void_v<std::invoke_result_t<F&, Args const&..., completion>>,
                "an asynchronous listener answers through its outbox::completion and returns nothing");
  std::invoke(f, args..., c.answer_later());
  return std::nullopt;
}

template <class F>
concept plain_listener = std::invocable<F&, delivery const&> || std::invocable<F&, delivery const&, completion>;

template <class F, class T>
concept typed_listener = std::invocable<F&, T const&> || std::invocable<F&, T const&, delivery const&> ||
                         std::invocable<F&, T const&, delivery const&, completion>;

template <class F, class T>
constexpr void check_listener() {
  if constexpr (std::is_void_v<T>) {
    static_assert(plain_listener<F>,
                  "a listener takes (outbox::delivery const&), or (outbox::delivery const&, outbox::completion) if it "
                  "answers later");
  } else {
    static_assert(typed_listener<F, T>,
                  "a listener takes (T const&), (T const&, outbox::delivery const&), or (T const&, outbox::delivery "
                  "const&, outbox::completion) if it answers later");
  }
}

/// True for a function that is not there: a null pointer, or an empty std::function.
template <class F>
bool is_empty(F const& f) {
  if constexpr (requires {
                  { f == nullptr } -> std::convertible_to<bool>;
                }) {
    return f == nullptr;
  } else {
    return false;
  }
}

/// Null for an empty function: the registration refuses it by name.
template <class Handler, class F>
std::unique_ptr<Handler> handler_of(F f) {
  return is_empty(f) ? nullptr : std::make_unique<Handler>(std::move(f));
}

template <plain_listener F>
class plain_handler final : public handler {
 public:
  explicit plain_handler(F f) : f_{std::move(f)} {}

  std::optional<result> handle(delivery const& d, call& c) override {
    if constexpr (std::invocable<F&, delivery const&, completion>) {
      return answer_later_of(f_, c, d);
    } else {
      return answer_of(f_, d);
    }
  }

 private:
  F f_;
};

/// The payload as a `T`, or the reason why it cannot be decoded.
template <class T>
std::optional<T> decoded(delivery const& d, std::optional<result>& problem) {
  try {
    return outbox::v0::decode<T>(d.event);
  } catch (permanent_failure const& e) {
    problem = dead{e.what()};
    return std::nullopt;
  }
}

template <class T, typed_listener<T> F>
class typed_handler final : public handler {
 public:
  explicit typed_handler(F f) : f_{std::move(f)} {}

  std::optional<result> handle(delivery const& d, call& c) override {
    std::optional<result> problem;
    auto const value = decoded<T>(d, problem);
    if (!value) return problem;
    if constexpr (std::invocable<F&, T const&, delivery const&, completion>) {
      return answer_later_of(f_, c, *value, d);
    } else if constexpr (std::invocable<F&, T const&, delivery const&>) {
      return answer_of(f_, *value, d);
    } else {
      return answer_of(f_, *value);
    }
  }

 private:
  F f_;
};

[[nodiscard]] OUTBOX_CORE_EXPORT failure wrong_number_of_results(std::size_t given, std::size_t wanted);

template <class F>
class plain_batch_handler final : public batch_handler {
 public:
  explicit plain_batch_handler(F f) : f_{std::move(f)} {}
  std::vector<result> handle(std::span<delivery const> batch) override { return f_(batch); }

 private:
  F f_;
};

/// Those that cannot be decoded are DEAD; the listener sees the rest.
template <class T, class F>
class typed_batch_handler final : public batch_handler {
 public:
  explicit typed_batch_handler(F f) : f_{std::move(f)} {}

  std::vector<result> handle(std::span<delivery const> batch) override {
    std::vector<T> values;
    std::vector<delivery> deliveries;
    std::vector<std::optional<result>> results(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (auto value = decoded<T>(batch[i], results[i])) {
        values.push_back(std::move(*value));
        deliveries.push_back(batch[i]);
      }
    }
    auto answers =
        values.empty() ? std::vector<result>{} : f_(std::span<T const>{values}, std::span<delivery const>{deliveries});
    if (answers.size() != values.size()) throw wrong_number_of_results(answers.size(), values.size());
    std::vector<result> all;
    auto next = answers.begin();
    for (auto& r : results) all.push_back(r ? std::move(*r) : std::move(*next++));
    return all;
  }

 private:
  F f_;
};

}  // namespace outbox::inline v0::detail
