#include <outbox/clock.hpp>

namespace outbox::inline v0 {

clock::~clock() = default;
namespace {

class machine final : public clock {
 public:
  instant now() const noexcept override {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  }
  steady_time steady() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace

std::shared_ptr<clock const> machine_clock() { return std::make_shared<machine const>(); }

}  // namespace outbox::inline v0
