// One process of a cluster on one MariaDB table, see support/cluster_child.hpp. The schema is the database.
#include "support/cluster_child.hpp"

#include <outbox/mysql.hpp>

namespace {

struct database {
  using connection = outbox::mysql::connection;

  static std::shared_ptr<outbox::store> open(outbox::cluster::arguments const& a) {
    outbox::mysql::options o;
    o.database = a.schema;
    o.migrate = false;
    o.timeout = std::chrono::seconds{5};
    o.log = nullptr;
    return outbox::mysql::open(a.connection, o);
  }

  static void write(connection& c, outbox::cluster::arguments const& a, outbox::writer const& w, int /*number*/,
                    std::string const& id, bool commit) {
    outbox::mysql::transaction tx{c};
    tx.execute("INSERT INTO " + a.schema + ".orders VALUES (?)", id);
    w.write(tx, "t", "1", {.id = id});
    if (commit) tx.commit();
  }
};

}  // namespace

int main(int argc, char** argv) { return outbox::cluster::run_child<database>(argc, argv); }
