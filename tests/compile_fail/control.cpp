#include <outbox/json.hpp>
#include "common.hpp"
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(good, n)

enum class named { one };
std::string_view outbox_name(named) { return "one"; }

void use(outbox::writer const& w, outbox::memory::transaction& tx, outbox::completion& c) {
  w.write(tx, good{1});
  w.write(tx, named::one, "1");
  outbox::listeners l;
  l.on<good>([](good const&) {});
  l.on<good>([](good const&, outbox::delivery const&, outbox::completion) {});
  l.on_batch<good>([](std::span<good const> g, std::span<outbox::delivery const>) {
    return std::vector<outbox::result>(g.size(), outbox::done);
  });
  l.on(outbox::fan_out<good>{}.to("a", [](good const&) {}));
  auto moved = std::move(c);
  static_cast<void>(outbox::ordered({.store = outbox::memory::open()}));
  static_cast<void>(outbox::writer_only({.store = outbox::memory::open()}));
}
