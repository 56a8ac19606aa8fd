#include <outbox/transaction.hpp>

namespace outbox::inline v0 {

transaction_observer::~transaction_observer() = default;

transaction_ref transaction_traits<no_transaction_t>::join(no_transaction_t const& /*none*/) noexcept {
  static constexpr transaction_operations operations{
      .kind = {},
      .active = [](void const*) noexcept { return false; },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; }};
  return {nullptr, operations};
}

}  // namespace outbox::inline v0
