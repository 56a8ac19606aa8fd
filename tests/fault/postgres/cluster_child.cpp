// One process of a cluster on one PostgreSQL table, see support/cluster_child.hpp.
#include "support/cluster_child.hpp"

#include <outbox/postgres.hpp>

namespace {

struct database {
  using connection = outbox::postgres::connection;

  static std::shared_ptr<outbox::store> open(outbox::cluster::arguments const& a) {
    outbox::postgres::options o;
    o.schema = a.schema;
    o.migrate = false;
    o.timeout = std::chrono::seconds{5};
    o.log = nullptr;
    return outbox::postgres::open(a.connection, o);
  }

  static void write(connection& c, outbox::cluster::arguments const& a, outbox::writer const& w, int number,
                    std::string const& id, bool commit) {
    using outbox::postgres::send_mode;
    outbox::postgres::transaction tx{c, number % 2 == 0 ? send_mode::immediate : send_mode::pipelined};
    tx.enqueue("INSERT INTO " + a.schema + ".orders VALUES ($1)", id);
    w.write(tx, "t", "1", {.id = id});
    if (commit) tx.commit();
  }
};

}  // namespace

int main(int argc, char** argv) { return outbox::cluster::run_child<database>(argc, argv); }
