// One process of a keyed cluster on one PostgreSQL table, see support/keyed_child.hpp.
#include "support/keyed_child.hpp"

#include <outbox/postgres.hpp>

namespace {

struct database {
  using connection = outbox::postgres::connection;

  static std::shared_ptr<outbox::store> open(outbox::cluster::keyed_arguments const& a) {
    outbox::postgres::options o;
    o.schema = a.schema;
    o.migrate = false;
    o.timeout = std::chrono::seconds{5};
    o.log = nullptr;
    return outbox::postgres::open(a.connection, o);
  }

  static int write(connection& c, outbox::cluster::keyed_arguments const& a, outbox::writer const& w,
                   std::string const& key, std::function<outbox::event(int)> const& event_of, bool commit) {
    outbox::postgres::transaction tx{c};
    auto const n = tx.query<int>("UPDATE " + a.schema + ".numbers SET n = n + 1 WHERE key = $1 RETURNING n", key).at(0);
    w.write(tx, event_of(n));
    if (commit) tx.commit();
    return n;
  }
};

}  // namespace

int main(int argc, char** argv) { return outbox::cluster::run_keyed_child<database>(argc, argv); }
