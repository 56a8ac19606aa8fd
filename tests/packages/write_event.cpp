// A service that only writes, for the test of the packages: it is built with the development package and uses the
// shared libraries of the other one.
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

int main(int /*argc*/, char** argv) {
  auto const box = outbox::writer_only({.store = outbox::sqlite::open(argv[1])});
  outbox::sqlite::connection db{argv[1]};
  outbox::sqlite::transaction tx{db};
  box.writer().write(tx, "order.placed", R"({"order_id":"42"})", {.aggregate = {"order", "42"}});
  tx.commit();
}
