// One process of a keyed cluster on one MariaDB table, see support/keyed_child.hpp. The schema is the database.
#include "support/keyed_child.hpp"

#include <outbox/mysql.hpp>

namespace {

struct database {
  using connection = outbox::mysql::connection;

  static std::shared_ptr<outbox::store> open(outbox::cluster::keyed_arguments const& a) {
    outbox::mysql::options o;
    o.database = a.schema;
    o.migrate = false;
    o.timeout = std::chrono::seconds{5};
    o.log = nullptr;
    return outbox::mysql::open(a.connection, o);
  }

  static int write(connection& c, outbox::cluster::keyed_arguments const& a, outbox::writer const& w,
                   std::string const& key, std::function<outbox::event(int)> const& event_of, bool commit) {
    outbox::mysql::transaction tx{c};
    tx.execute("UPDATE " + a.schema + ".numbers SET n = n + 1 WHERE name = ?", key);
    auto const n = tx.query<int>("SELECT n FROM " + a.schema + ".numbers WHERE name = ?", key).at(0);
    w.write(tx, event_of(n));
    if (commit) tx.commit();
    return n;
  }
};

}  // namespace

int main(int argc, char** argv) { return outbox::cluster::run_keyed_child<database>(argc, argv); }
