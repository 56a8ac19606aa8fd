// The key functions of the interfaces: one place for their vtables.
#include <outbox/clock.hpp>
#include <outbox/listener.hpp>
#include <outbox/metrics.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>

namespace outbox::inline v0 {

clock::~clock() = default;
metrics::~metrics() = default;
transaction_observer::~transaction_observer() = default;
dispatch_lock::~dispatch_lock() = default;
inspector::~inspector() = default;
store::~store() = default;
detail::call::~call() = default;
detail::handler::~handler() = default;
detail::batch_handler::~batch_handler() = default;
detail::answer_slot::~answer_slot() = default;

failure::failure(std::string const& reason, std::optional<std::chrono::milliseconds> after)
    : std::runtime_error{reason}, after_{after} {}
failure::~failure() = default;

permanent_failure::permanent_failure(std::string const& reason) : std::runtime_error{reason} {}
permanent_failure::~permanent_failure() = default;

}  // namespace outbox::inline v0
