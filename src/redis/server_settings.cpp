#include "redis/server_settings.hpp"

#include <charconv>
#include <outbox/spi/check.hpp>

namespace outbox::inline v0::redis {
namespace {

using spi::check;
using spi::finding_level;

// The value of a line "name:value" of INFO.
std::string value_in(std::string_view info, std::string_view name) {
  for (std::size_t at = 0; at < info.size();) {
    auto const end = std::min(info.find("\r\n", at), info.size());
    auto const line = info.substr(at, end - at);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      return std::string{line.substr(name.size() + 1)};
    }
    at = end + 2;
  }
  return {};
}

std::uint64_t number_in(std::string_view info, std::string_view name) {
  auto const text = value_in(info, name);
  std::uint64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

void check_eviction(server_settings const& f, std::vector<spi::finding>& found) {
  check const here{found, "eviction", "A server that evicts keys when its memory is full deletes events."};
  if (f.eviction.empty()) return here.skipped("The server does not tell its maxmemory-policy: " + f.unknown + ".");
  bool const safe = f.eviction == "noeviction";
  here.says(safe ? finding_level::passed : finding_level::problem,
            "The server has maxmemory-policy " + f.eviction + ".",
            safe ? "" : "CONFIG SET maxmemory-policy noeviction");
}

void check_append_only(server_settings const& f, std::vector<spi::finding>& found) {
  check const here{found, "append_only",
                   "Without the append-only file, a crash of the server loses events that were written."};
  if (f.append_only.empty())
    return here.skipped("The server does not tell whether its append-only file is on: " + f.unknown + ".");
  if (f.append_only != "1") return here.warning("The append-only file is off.", "CONFIG SET appendonly yes");
  if (f.append_status == "err") {
    return here.problem("The server cannot write its append-only file, and refuses changes.",
                        "Look for free space on the server's disk.");
  }
  here.passed("The append-only file is on.");
}

void check_fsync(server_settings const& f, std::vector<spi::finding>& found) {
  check const here{found, "appendfsync", "What is not on the disk is lost if the server's machine fails."};
  if (f.append_only == "0") return;
  if (f.fsync.empty()) {
    return here.skipped("The server does not tell its appendfsync.", "ACL SETUSER … +config|get");
  }
  auto const text = "The server has appendfsync " + f.fsync + ".";
  if (f.fsync == "always") return here.passed(text);
  auto const level = f.fsync == "everysec" ? finding_level::note : finding_level::warning;
  here.says(level, text + (f.fsync == "everysec" ? " A failure may lose the last second or two." : ""),
            "CONFIG SET appendfsync always");
}

void check_replicas(server_settings const& f, std::size_t wanted, std::vector<spi::finding>& found) {
  check const here{found, "replicas", "A failover to a replica loses what the replica has not received."};
  if (!f.unknown.empty()) return here.skipped("The server does not tell its replicas: " + f.unknown + ".");
  auto const has = std::to_string(f.replicas) + (f.replicas == 1 ? " replica is" : " replicas are") + " connected";
  if (f.replicas < wanted) {
    return here.problem(has + ", and the store waits for " + std::to_string(wanted) + ".", "INFO replication");
  }
  if (f.replicas > 0 && wanted == 0) {
    return here.note(has + ", and the store waits for none of them.", "Add outbox.replicas=1 to the URL.");
  }
  here.passed(has + ".");
}

void check_memory(server_settings const& f, std::vector<spi::finding>& found) {
  check const here{found, "memory", "A server whose memory is full refuses new events."};
  if (!f.unknown.empty()) return here.skipped("The server does not tell its memory: " + f.unknown + ".");
  if (f.max_memory == 0) return here.passed("The server has no limit of memory (maxmemory 0).");
  auto const percent = f.used_memory * 100 / f.max_memory;
  auto const level = percent > 95   ? finding_level::problem
                     : percent > 80 ? finding_level::warning
                                    : finding_level::passed;
  here.says(level, "The server uses " + std::to_string(percent) + " % of its memory.",
            level == finding_level::passed ? "" : "CONFIG SET maxmemory …");
}

void check_role(server_settings const& f, std::vector<spi::finding>& found) {
  check const here{found, "read_only_server", "Nodes must write to the server."};
  if (f.role.empty()) return here.skipped("The server does not tell its role: " + f.unknown + ".");
  if (f.role == "master") return here.passed("The server takes writes.");
  here.problem("The server is a replica.", "Connect to the primary.");
}

}  // namespace

server_settings look_at(server& s) {
  server_settings f;
  try {
    auto const a = s.call(arguments{"INFO"}, "cannot read the server's settings");
    auto const info = a.text();
    f.version = value_in(info, "redis_version");
    f.role = value_in(info, "role");
    f.eviction = value_in(info, "maxmemory_policy");
    f.used_memory = number_in(info, "used_memory");
    f.max_memory = number_in(info, "maxmemory");
    f.append_only = value_in(info, "aof_enabled");
    f.append_status = value_in(info, "aof_last_write_status");
    f.replicas = number_in(info, "connected_slaves");
    f.clustered = value_in(info, "cluster_enabled") == "1";
  } catch (error const& e) {
    if (e.transient()) throw;
    f.unknown = e.what();
  }
  try {
    auto const a = s.call(arguments{"CONFIG", "GET", "appendfsync"}, "cannot read a setting");
    f.fsync = a[1].text();
  } catch (error const& e) {
    if (e.transient()) throw;
  }
  return f;
}

bool new_enough(server_settings const& f) noexcept {
  int major = 0;
  int minor = 0;
  auto const* const end = f.version.data() + f.version.size();
  auto const [dot, code] = std::from_chars(f.version.data(), end, major);
  if (code != std::errc{} || dot == end) return true;
  std::from_chars(dot + 1, end, minor);
  return major > 6 || (major == 6 && minor >= 2);
}

void check_durability(server_settings const& f, std::size_t wanted_replicas, std::vector<spi::finding>& found) {
  check_role(f, found);
  check_eviction(f, found);
  check_append_only(f, found);
  check_fsync(f, found);
  check_replicas(f, wanted_replicas, found);
  check_memory(f, found);
}

}  // namespace outbox::inline v0::redis
