// Links what a service links: core, the stores, the exporter and the testing kit.
#include <cstdio>
#include <outbox/memory.hpp>
#ifdef WITH_MYSQL
#include <outbox/mysql.hpp>
#endif
#include <outbox/outbox.hpp>
#ifdef WITH_POSTGRES
#include <outbox/postgres.hpp>
#endif
#ifdef WITH_PROMETHEUS
#include <outbox/prometheus.hpp>
#endif
#ifdef WITH_REDIS
#include <outbox/redis.hpp>
#endif
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

namespace {

// There is no server here. The refusal shows that the store is linked.
template <class Open>
bool is_linked(Open open) {
  try {
    static_cast<void>(open("not a connection string"));
    return false;
  } catch (outbox::error const& e) {
    return e.code() == outbox::errc::invalid_option;
  }
}

bool the_rest_is_linked() {
  bool linked = true;
#ifdef WITH_POSTGRES
  linked = linked && is_linked([](char const* text) { return outbox::postgres::open(text); });
#endif
#ifdef WITH_MYSQL
  linked = linked && is_linked([](char const* text) { return outbox::mysql::open(text); });
#endif
#ifdef WITH_REDIS
  linked = linked && is_linked([](char const* text) { return outbox::redis::open(text); });
#endif
#ifdef WITH_PROMETHEUS
  linked = linked && outbox::prometheus::registry{}.text().find("outbox_build_info") != std::string::npos;
#endif
  return linked;
}

}  // namespace

int main(int argc, char** argv) {
  auto const clock = std::make_shared<outbox::testing::manual_clock>();
  auto const store =
      argc > 1 ? outbox::sqlite::open(argv[1], {.clock = clock}) : outbox::memory::open({.clock = clock});
  int seen = 0;
  outbox::listeners listeners;
  listeners.on("greeting", [&](outbox::delivery const& d) {
    ++seen;
    std::printf("%s\n", d.event.payload().c_str());
  });
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .clock = clock});
  box.run_until_idle();
  if (argc > 1) {
    outbox::sqlite::connection db{argv[1]};
    outbox::sqlite::transaction tx{db};
    box.writer().write(tx, "greeting", "\"hello\"");
    tx.commit();
  } else {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "greeting", "\"hello\"");
    tx.commit();
  }
  box.run_until_idle();
  std::printf("outbox %s\n", std::string{outbox::version()}.c_str());
  return seen == 1 && the_rest_is_linked() ? 0 : 1;
}
