#include <charconv>
#include <map>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/open_store.hpp>
#include <outbox/sqlite.hpp>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>
#endif
#include <string>

namespace outbox::inline v0 {
namespace {

using parameters = std::map<std::string, std::string, std::less<>>;

#ifdef OUTBOX_HAS_POSTGRES
constexpr std::string_view own_prefix = "outbox.";
constexpr std::string_view schemes = "sqlite, memory and postgresql";
#else
constexpr std::string_view schemes = "sqlite and memory";
#endif

[[noreturn]] void refuse(std::string const& problem) { throw error::about(errc::invalid_option, "url", problem); }

parameters parse_parameters(std::string_view query) {
  parameters result;
  while (!query.empty()) {
    auto const end = std::min(query.find('&'), query.size());
    auto const one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    auto const equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0)
      refuse("has a parameter that is not name=value: '" + std::string{one} + "'");
    if (!result.emplace(one.substr(0, equals), one.substr(equals + 1)).second) {
      refuse("has the parameter '" + std::string{one.substr(0, equals)} + "' twice");
    }
  }
  return result;
}

std::int64_t number(std::string const& name, std::string const& text) {
  std::int64_t value = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0)
    refuse("has " + name + "=" + text + ", which is no number");
  return value;
}

done_rows done_rows_of(std::string const& text) {
  if (text == "keep") return done_rows::keep;
  if (text != "erase") refuse("has done_rows=" + text + "; it must be keep or erase");
  return done_rows::erase;
}

sqlite::synchronous synchronous_of(std::string const& text) {
  if (text == "full") return sqlite::synchronous::full;
  if (text != "normal") refuse("has synchronous=" + text + "; it must be full or normal");
  return sqlite::synchronous::normal;
}

std::shared_ptr<store> open_sqlite(std::string path, parameters const& given) {
  if (path.starts_with("//")) path.erase(0, 2);  // sqlite:///absolute and sqlite://relative, as others write it
  if (path.empty()) refuse("names no file: write sqlite:path/to/file.db");
  sqlite::options o;
  for (auto const& [name, value] : given) {
    if (name == "table") {
      o.table = value;
    } else if (name == "busy_timeout") {
      o.busy_timeout = std::chrono::milliseconds{number(name, value)};
    } else if (name == "migrate") {
      o.migrate = number(name, value) != 0;
    } else if (name == "done_rows") {
      o.done_rows = done_rows_of(value);
    } else if (name == "synchronous") {
      o.synchronous = synchronous_of(value);
    } else {
      refuse("has the unknown parameter '" + name +
             "'; sqlite knows table, busy_timeout, migrate, done_rows and synchronous");
    }
  }
  return sqlite::open(path, std::move(o));
}

#ifdef OUTBOX_HAS_POSTGRES
// Our own parameters begin with "outbox."; the rest of the URL belongs to libpq.
std::shared_ptr<store> open_postgres(std::string_view url) {
  auto const question = std::min(url.find('?'), url.size());
  std::string connection{url.substr(0, question)};
  auto query = url.substr(std::min(question + 1, url.size()));
  std::string ours;
  char separator = '?';
  while (!query.empty()) {
    auto const end = std::min(query.find('&'), query.size());
    auto const one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.starts_with(own_prefix)) {
      ours += (ours.empty() ? "" : "&") + std::string{one.substr(own_prefix.size())};
    } else {
      connection += separator + std::string{one};
      separator = '&';
    }
  }
  postgres::options o;
  for (auto const& [name, value] : parse_parameters(ours)) {
    if (name == "table") {
      o.table = value;
    } else if (name == "schema") {
      o.schema = value;
    } else if (name == "connections") {
      o.connections = static_cast<std::size_t>(number(name, value));
    } else if (name == "timeout") {
      o.timeout = std::chrono::milliseconds{number(name, value)};
    } else if (name == "migrate") {
      o.migrate = number(name, value) != 0;
    } else if (name == "ordered") {
      o.ordered = number(name, value) != 0;
    } else if (name == "notify") {
      o.notify = number(name, value) != 0;
    } else if (name == "done_rows") {
      o.done_rows = done_rows_of(value);
    } else {
      refuse("has the unknown parameter 'outbox." + name +
             "'; postgresql knows outbox.table, schema, connections, timeout, migrate, ordered, notify and done_rows");
    }
  }
  return postgres::open(connection, std::move(o));
}
#endif

}  // namespace

std::shared_ptr<store> open_store(std::string_view url) {
  auto const colon = url.find(':');
  if (colon == std::string_view::npos) refuse("has no scheme: write sqlite:path/to/file.db or memory:");
  auto const scheme = url.substr(0, colon);
#ifdef OUTBOX_HAS_POSTGRES
  if (scheme == "postgresql" || scheme == "postgres") return open_postgres(url);
#endif
  auto rest = url.substr(colon + 1);
  auto const question = std::min(rest.find('?'), rest.size());
  auto const given = parse_parameters(rest.substr(std::min(question + 1, rest.size())));
  rest = rest.substr(0, question);
  if (scheme == "sqlite") return open_sqlite(std::string{rest}, given);
  if (scheme == "memory") {
    if (!rest.empty() || !given.empty()) refuse("is more than memory:, which takes nothing");
    return memory::open();
  }
  refuse("has the unknown scheme '" + std::string{scheme} + "'; this library was built with " + std::string{schemes});
}

}  // namespace outbox::inline v0
