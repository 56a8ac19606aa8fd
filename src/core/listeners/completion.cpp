#include <atomic>
#include <outbox/completion.hpp>

namespace outbox::inline v0 {

completion& completion::operator=(completion&& other) noexcept {
  completion old{std::move(slot_)};  // owed an answer, it counts as dropped
  slot_ = std::move(other.slot_);
  return *this;
}

completion::~completion() {
  if (slot_) slot_->dropped();
}

void completion::operator()(result r) noexcept {
  if (auto const slot = std::move(slot_)) slot->answer(std::move(r), {});
}

completion completion::adopt(void* released) noexcept {
  return completion{std::unique_ptr<detail::answer_slot>{static_cast<detail::answer_slot*>(released)}};
}

struct shared_completion::state {
  completion to;
  std::atomic_flag answered{};
};

shared_completion::shared_completion(completion c) : state_{std::make_shared<state>(std::move(c))} {}

void shared_completion::operator()(result r) const noexcept {
  if (state_ && !state_->answered.test_and_set()) state_->to(std::move(r));
}

shared_completion completion::share() && { return shared_completion{std::move(*this)}; }

}  // namespace outbox::inline v0
