// The checks of `outbox doctor` on Redis.
#include <outbox/spi/check.hpp>

#include "redis/redis_store.hpp"
#include "redis/rows.hpp"
#include "redis/server_settings.hpp"

namespace outbox::inline v0::redis {
namespace {

using spi::check;
using spi::finding;

void check_version(server& s, std::vector<finding>& found) {
  check const here{found, "schema_version", "Nodes of several versions share an outbox only if its version allows it."};
  auto const a =
      s.run(all_scripts().read_table, arguments{"open", false, spi::schema_version, ""}, "cannot read the version");
  auto const text = "The outbox has version " + std::string{a[0].text()} + ", and this library " +
                    std::to_string(spi::schema_version) + ".";
  if (a[0].number() > spi::schema_version) return here.note(text);
  here.passed(text);
}

// Rows whose lease is over are taken by the next claim of any node.
void check_owners(server& s, std::vector<node_row> const& nodes, spi::finding_limits const& limits,
                  std::vector<finding>& found) {
  check const here{found, "expired_leases", "Events whose owner is gone wait until another node claims them."};
  auto const now =
      instant_of(s.run(all_scripts().read_table, arguments{"time"}, "cannot read the time")).value_or(instant{});
  arguments const ask{"ZCOUNT", s.prefix() + "leased", "-inf", text_of(now - limits.expired_lease)};
  auto const expired = s.call(ask, "cannot count leases").number();
  if (expired == 0) return here.passed("No lease ended more than a minute ago.");
  bool const served =
      std::ranges::any_of(nodes, [](node_row const& n) { return n.mode != node_mode::writer_only && n.active; });
  here.says(served ? spi::finding_level::warning : spi::finding_level::problem,
            std::to_string(expired) + (expired == 1 ? " event has" : " events have") + " a lease that is over.",
            served ? "outbox nodes" : "Start a node.");
}

}  // namespace

std::vector<finding> redis_store::findings(spi::finding_limits const& limits) {
  std::vector<finding> found;
  check_version(*server_, found);
  check_durability(look_at(*server_), options_.replicas, found);
  check_owners(*server_, nodes(), limits, found);
  auto const where = server_->where();
  spi::check_transport({.peer = where.socket.empty() ? where.host : where.socket,
                        .encrypted = where.tls != tls::off,
                        .verified = where.tls == tls::verify,
                        .fix = "Write rediss:// instead of redis://, and add ssl_ca=FILE to the URL."},
                       found);
  return found;
}

}  // namespace outbox::inline v0::redis
