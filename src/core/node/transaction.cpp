#include <outbox/transaction.hpp>

namespace outbox::inline v0 {

transaction_observer::~transaction_observer() = default;

}  // namespace outbox::inline v0
