// One misuse at a time: -DMISUSE_<name>.
#include "common.hpp"

struct nameless {
  using outbox_codec = outbox::json;
};
struct uncoded {
  static constexpr std::string_view event_type = "uncoded";
};
struct some_transaction {};
enum class unnamed { one };

void use([[maybe_unused]] outbox::writer const& w, [[maybe_unused]] outbox::memory::transaction& tx,
         [[maybe_unused]] outbox::completion& c) {
  [[maybe_unused]] outbox::listeners l;
#if defined(MISUSE_unknown_transaction)
  some_transaction other;
  w.write(other, good{1});
#elif defined(MISUSE_event_without_name)
  l.on<nameless>([](nameless const&) {});
#elif defined(MISUSE_event_without_codec)
  l.on<uncoded>([](uncoded const&) {});
#elif defined(MISUSE_codec_only_declared)
  w.write(tx, only_declared{});
#elif defined(MISUSE_listener_takes_something_else)
  l.on<good>([](int*) {});
#elif defined(MISUSE_listener_returns_something_else)
  l.on<good>([](good const&) { return 42; });
#elif defined(MISUSE_asynchronous_listener_returns)
  l.on<good>([](good const&, outbox::delivery const&, outbox::completion) -> outbox::result { return outbox::done; });
#elif defined(MISUSE_batch_of_one_result)
  l.on_batch<good>(
      [](std::span<good const>, std::span<outbox::delivery const>) { return outbox::result{outbox::done}; });
#elif defined(MISUSE_fan_out_child_takes_something_else)
  outbox::fan_out<good>{}.to("a", [](int*) {});
#elif defined(MISUSE_workers_of_ordered)
  static_cast<void>(outbox::ordered({.store = outbox::memory::open(), .workers = 4}));
#elif defined(MISUSE_retry_of_ordered)
  static_cast<void>(outbox::ordered({.store = outbox::memory::open(), .retry = {}}));
#elif defined(MISUSE_hot_path_of_ordered)
  static_cast<void>(outbox::ordered({.store = outbox::memory::open(), .hot_path = true}));
#elif defined(MISUSE_listeners_of_writer_only)
  static_cast<void>(outbox::writer_only({.store = outbox::memory::open(), .listeners = {}}));
#elif defined(MISUSE_copied_completion)
  auto copy = c;
#elif defined(MISUSE_enum_without_name)
  w.write(tx, unnamed::one, "1");
#else
#error "no misuse was chosen"
#endif
}
