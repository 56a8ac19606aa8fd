#include <algorithm>
#include <outbox/tx_context.hpp>
#include <vector>

namespace outbox::inline v0 {
namespace {

struct binding {
  thread_local_context const* context;
  transaction_ref tx;
};

// All contexts share it: a thread has few transactions at a time, and a search beats a map.
thread_local std::vector<binding> bindings;

}  // namespace

tx_context::~tx_context() = default;
thread_local_context::~thread_local_context() = default;

thread_local_context::scope::scope(thread_local_context const& context, transaction_ref tx) : context_{&context} {
  bindings.push_back({&context, tx});
}

thread_local_context::scope::~scope() {
  auto const mine =
      std::find_if(bindings.rbegin(), bindings.rend(), [&](binding const& b) { return b.context == context_; });
  if (mine != bindings.rend()) bindings.erase(std::next(mine).base());
}

std::optional<transaction_ref> thread_local_context::current() const noexcept {
  auto const mine =
      std::find_if(bindings.rbegin(), bindings.rend(), [&](binding const& b) { return b.context == this; });
  return mine == bindings.rend() ? std::nullopt : std::optional{mine->tx};
}

transaction_ref transaction_traits<tx_context>::join(tx_context const& context) noexcept {
  static constexpr transaction_operations none{
      .kind = "none",
      .active = [](void const*) noexcept { return false; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; }};
  return context.current().value_or(transaction_ref{nullptr, none});
}

}  // namespace outbox::inline v0
