#include <functional>
#include <outbox/json.hpp>
#include "common.hpp"
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(good, n)

struct by_json {
  static constexpr std::string_view event_type = "by.json";
  using outbox_codec = outbox::json;
  int n = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(by_json, n)

enum class named { one };
std::string_view outbox_name(named) { return "one"; }
enum class literal { one };
char const* outbox_name(literal) { return "one"; }

void use(outbox::writer const& w, outbox::memory::transaction& tx, outbox::completion& c, outbox::event const& e) {
  w.write(tx, good{1});
  w.write(tx, by_json{1}, outbox::event_options{.id = "1"});
  w.write(tx, named::one, "1");
  w.write(tx, e);
  std::string const text = nlohmann::json{{"a", 1}}.dump();
  w.write(tx, "good", text, {.id = "1"});
  w.write(tx, "good", std::string_view{text});
  w.write(tx, std::string{"good"}, nlohmann::json("42").dump());
  w.write(tx, std::string_view{"good"}, text.c_str(), outbox::event_options{});
  static_cast<void>(outbox::event::json("good", text));
  static_cast<void>(outbox::decode<good>(e));
  outbox::listeners l;
  l.on<good>([](good const&) {});
  l.on<good>([](good const&, outbox::delivery const&, outbox::completion) {});
  l.on(literal::one, [](outbox::delivery const&) {});
  l.on("order", named::one, std::function<outbox::result(outbox::delivery const&)>{}, {.name = "a"});
  l.on_batch<good>([](std::span<good const> g, std::span<outbox::delivery const>) {
    return std::vector<outbox::result>(g.size(), outbox::done);
  });
  l.on(outbox::fan_out<good>{}.to("a", [](good const&) {}));
  auto moved = std::move(c);
  static_cast<void>(outbox::ordered({.store = outbox::memory::open()}));
  static_cast<void>(outbox::writer_only({.store = outbox::memory::open()}));
}
