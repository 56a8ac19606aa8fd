// Links core and nothing else: no store, no database.
#include <cstdio>
#include <outbox/outbox.hpp>

int main() {
  auto const e = outbox::event::json("greeting", "\"hello\"", {.headers = {{"lang", "en"}}});
  outbox::listeners listeners;
  listeners.on("greeting", [](outbox::delivery const&) { return outbox::result{outbox::done}; });
  try {
    static_cast<void>(outbox::single_node({.listeners = std::move(listeners)}));
  } catch (outbox::error const& refused) {
    std::printf("%s of %zu bytes; %s\n", e.id().c_str(), e.payload().size(), refused.what());
    return refused.field() == "store" ? 0 : 1;
  }
  return 1;
}
