#include <outbox/error.hpp>
#include <outbox/hooks.hpp>

namespace outbox::inline v0 {

writer_hook::~writer_hook() = default;
interceptor::~interceptor() = default;

namespace {

class before_function final : public interceptor {
 public:
  explicit before_function(std::function<void(delivery const&)> f) : f_{std::move(f)} {}
  void before(delivery const& d) override { f_(d); }

 private:
  std::function<void(delivery const&)> f_;
};

[[noreturn]] void refuse_empty(std::string_view who) {
  throw error::about(errc::invalid_option, who, "was given an empty function");
}

class after_function final : public interceptor {
 public:
  explicit after_function(std::function<void(delivery const&, result const&)> f) : f_{std::move(f)} {}
  void after(delivery const& d, result const& r) override { f_(d, r); }

 private:
  std::function<void(delivery const&, result const&)> f_;
};

}  // namespace

std::shared_ptr<interceptor> intercept_before(std::function<void(delivery const&)> f) {
  if (!f) refuse_empty("intercept_before");
  return std::make_shared<before_function>(std::move(f));
}

std::shared_ptr<interceptor> intercept_after(std::function<void(delivery const&, result const&)> f) {
  if (!f) refuse_empty("intercept_after");
  return std::make_shared<after_function>(std::move(f));
}

}  // namespace outbox::inline v0
