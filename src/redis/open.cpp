// Opening an outbox: options, the server's settings, and the version of what is there.
#include <algorithm>
#include <outbox/error.hpp>
#include <outbox/redis.hpp>
#include <outbox/spi/check.hpp>
#include <utility>

#include "core/base/text.hpp"
#include "redis/redis_store.hpp"
#include "redis/server_settings.hpp"

namespace outbox::inline v0::redis {
namespace {

constexpr std::size_t longest_name = 100;

[[noreturn]] void refuse(std::string_view option, std::string const& why) {
  throw error::about(errc::invalid_option, option, why);
}

// A cluster computes the slot of a key from what stands between its first '{' and the next '}', if that is not empty.
bool has_slot_of_its_own(std::string_view name) noexcept {
  auto const open = name.find('{');
  if (open == std::string_view::npos) return false;
  auto const close = name.find('}', open);
  return close != std::string_view::npos && close > open + 1;
}

std::string prefix_of(std::string const& name) {
  auto const length = core::utf8_length(name);
  if (name.empty() || !length || *length > longest_name) {
    refuse("name", "must be text of 1 to " + std::to_string(longest_name) + " characters");
  }
  if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    refuse("name", "has a control character in it");
  }
  bool const braces = name.find_first_of("{}") != std::string::npos;
  if (braces && !has_slot_of_its_own(name)) {
    refuse("name", "has a brace that does not enclose anything: write it without, or as {shop}:outbox");
  }
  return (braces ? name : "{" + name + "}") + ":";
}

void check_limits_of(options const& o) {
  if (o.connections < 1 || o.connections > 100) refuse("connections", "must be 1 to 100");
  if (o.timeout < std::chrono::milliseconds{100} || o.timeout > std::chrono::minutes{10}) {
    refuse("timeout", "must be 100 ms to 10 min");
  }
  if (o.replicas > 16) refuse("replicas", "must be 0 to 16");
}

std::shared_ptr<server> server_of(std::string const& url, options const& o) {
  check_limits_of(o);
  return std::make_shared<server>(url, prefix_of(o.name), o.connections, o.timeout);
}

// Some settings lose events, whatever the store does: it refuses those. Of the others it warns.
void check_settings(server& s, options const& o) {
  auto const facts = look_at(s);
  if (!new_enough(facts)) {
    throw error{errc::store_failure, "the server has Redis " + facts.version + ", and the store needs 6.2 or later"};
  }
  if (!o.read_only && !facts.eviction.empty() && facts.eviction != "noeviction") {  // one that reads reports it
    throw error{errc::store_failure, "the server has maxmemory-policy " + facts.eviction +
                                         ", which deletes events when its memory is full: CONFIG SET maxmemory-policy "
                                         "noeviction"};
  }
  if (o.read_only || !o.log) return;
  std::vector<spi::finding> found;
  check_durability(facts, o.replicas, found);
  for (auto const& f : found) {
    if (f.level == spi::finding_level::passed || f.level == spi::finding_level::skipped) continue;
    auto const level = f.level == spi::finding_level::note ? log_level::info : log_level::warning;
    o.log({level, f.text + " " + f.why});
  }
}

struct opened {
  std::string identity;
  int version = 0;
  int oldest_library = 0;
  bool created = false;
};

// Looks first, so that an outbox on a replica can be opened to read.
opened open_outbox(server& s, bool create) {
  auto const ask = [&](script const& how, bool make) {
    return s.run(how, arguments{"open", make, spi::schema_version, new_uuid()}, "cannot open the outbox");
  };
  auto a = ask(all_scripts().read_table, false);
  if (create && a[0].text().empty()) a = ask(all_scripts().table, true);
  return {std::string{a[2].text()}, static_cast<int>(a[0].number()), static_cast<int>(a[1].number()),
          a[3].number() == 1};
}

void check_version(opened const& found, options const& o) {
  if (found.version == 0) {
    throw error{errc::store_failure, "there is no outbox '" + o.name + "' on the server, and migrate is off"};
  }
  if (found.oldest_library > spi::schema_version) {
    throw error{errc::store_failure, "the outbox '" + o.name + "' has version " + std::to_string(found.version) +
                                         " and needs a newer library: this one knows version " +
                                         std::to_string(spi::schema_version)};
  }
}

}  // namespace

std::shared_ptr<store> open(std::string const& url, options o) {
  auto s = server_of(url, o);
  check_settings(*s, o);
  auto found = open_outbox(*s, o.migrate && !o.read_only);
  check_version(found, o);
  return std::make_shared<redis_store>(std::move(s), std::move(o), std::move(found.identity));
}

migration migrate(std::string const& url, options const& o) {
  auto const s = server_of(url, o);
  check_settings(*s, o);
  auto const found = open_outbox(*s, true);
  check_version(found, o);
  return {.change = found.created ? migration::kind::created : migration::kind::nothing};
}

schema_state schema_of(std::string const& url, options const& o) {
  auto const s = server_of(url, o);
  auto const found = open_outbox(*s, false);
  schema_state state{.version = found.version, .wanted = spi::schema_version};
  state.found = found.version == 0                     ? schema_state::kind::none
                : found.version < spi::schema_version  ? schema_state::kind::older
                : found.version == spi::schema_version ? schema_state::kind::current
                                                       : schema_state::kind::newer;
  return state;
}

std::string_view write_script() noexcept { return text_of_write(); }

}  // namespace outbox::inline v0::redis
