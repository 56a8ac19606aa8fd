// One process of a cluster on one outbox in Redis, see support/cluster_child.hpp. The schema is the outbox's name.
#include "support/cluster_child.hpp"

#include <outbox/redis.hpp>

namespace {

struct database {
  using connection = outbox::redis::connection;

  static std::shared_ptr<outbox::store> open(outbox::cluster::arguments const& a) {
    return outbox::redis::open(a.connection, {.name = a.schema,
                                              .timeout = std::chrono::seconds{5},
                                              .migrate = false,
                                              .done_rows = outbox::done_rows::keep,
                                              .log = nullptr});
  }

  static void write(connection& c, outbox::cluster::arguments const& a, outbox::writer const& w, int /*number*/,
                    std::string const& id, bool commit) {
    outbox::redis::transaction tx{c};
    tx.command("SADD", "{" + a.schema + "}:orders", id);
    w.write(tx, "t", "1", {.id = id});
    if (commit) tx.commit();
  }
};

}  // namespace

int main(int argc, char** argv) { return outbox::cluster::run_child<database>(argc, argv); }
