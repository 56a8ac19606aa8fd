#include <charconv>
#include <map>
#include <optional>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/open_store.hpp>
#include <outbox/sqlite.hpp>
#ifdef OUTBOX_HAS_POSTGRES
#include <outbox/postgres.hpp>
#endif
#ifdef OUTBOX_HAS_MYSQL
#include <outbox/mysql.hpp>
#endif
#ifdef OUTBOX_HAS_REDIS
#include <outbox/redis.hpp>
#endif
#include <string>
#include <utility>
#include <variant>

#include "core/base/server_url.hpp"

namespace outbox::inline v0 {
namespace {

using parameters = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view schemes =
    "sqlite"
#ifdef OUTBOX_HAS_POSTGRES
    ", postgresql"
#endif
#ifdef OUTBOX_HAS_MYSQL
    ", mysql"
#endif
#ifdef OUTBOX_HAS_REDIS
    ", redis"
#endif
    " and memory";

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

// Stores that keep the order of keys without an index of their own have no such option.
template <class Options>
void prepare_keys(Options& o, bool keyed) {
  if constexpr (requires { o.keyed; }) o.keyed = keyed;
}

// Where a store is, and the options that its URL gives.
template <class Options>
struct place {
  std::string at;  ///< A path, a connection string or a URL without our parameters.
  Options options;
};

place<sqlite::options> sqlite_place(std::string path, parameters const& given) {
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
    } else if (name == "keyed") {
      o.keyed = number(name, value) != 0;
    } else if (name == "done_rows") {
      o.done_rows = done_rows_of(value);
    } else if (name == "synchronous") {
      o.synchronous = synchronous_of(value);
    } else {
      refuse("has the unknown parameter '" + name +
             "'; sqlite knows table, busy_timeout, migrate, keyed, done_rows and synchronous");
    }
  }
  return {std::move(path), std::move(o)};
}

// The URL of a server. Our own parameters begin with "outbox."; the rest belongs to the client library.
struct server_url {
  explicit server_url(std::string_view url) {
    constexpr std::string_view own_prefix = "outbox.";
    auto const question = std::min(url.find('?'), url.size());
    connection = url.substr(0, question);
    auto query = url.substr(std::min(question + 1, url.size()));
    std::string own;
    char separator = '?';
    while (!query.empty()) {
      auto const end = std::min(query.find('&'), query.size());
      auto const one = query.substr(0, end);
      query.remove_prefix(std::min(end + 1, query.size()));
      if (one.starts_with(own_prefix)) {
        own += (own.empty() ? "" : "&") + std::string{one.substr(own_prefix.size())};
      } else {
        connection += separator + std::string{one};
        separator = '&';
      }
    }
    ours = parse_parameters(own);
  }

  std::string connection;
  parameters ours;
};

// The options that all stores on a server have. False if it is none of them.
template <class Options>
[[maybe_unused]] bool read_server_option(Options& o, std::string const& name, std::string const& value) {
  if (name == "connections") {
    o.connections = static_cast<std::size_t>(number(name, value));
  } else if (name == "timeout") {
    o.timeout = std::chrono::milliseconds{number(name, value)};
  } else if (name == "migrate") {
    o.migrate = number(name, value) != 0;
  } else if (name == "done_rows") {
    o.done_rows = done_rows_of(value);
  } else {
    return false;
  }
  return true;
}

#ifdef OUTBOX_HAS_POSTGRES
place<postgres::options> postgres_place(std::string_view text) {
  server_url const url{text};
  postgres::options o;
  for (auto const& [name, value] : url.ours) {
    if (read_server_option(o, name, value)) continue;
    if (name == "table") {
      o.table = value;
    } else if (name == "schema") {
      o.schema = value;
    } else if (name == "ordered") {
      o.ordered = number(name, value) != 0;
    } else if (name == "keyed") {
      o.keyed = number(name, value) != 0;
    } else if (name == "notify") {
      o.notify = number(name, value) != 0;
    } else {
      refuse("has the unknown parameter 'outbox." + name +
             "'; postgresql knows outbox.table, schema, connections, timeout, migrate, ordered, keyed, notify and "
             "done_rows");
    }
  }
  return {url.connection, std::move(o)};
}
#endif

#ifdef OUTBOX_HAS_MYSQL
place<mysql::options> mysql_place(std::string_view text) {
  server_url const url{text};
  mysql::options o;
  for (auto const& [name, value] : url.ours) {
    if (read_server_option(o, name, value)) continue;
    if (name == "table") {
      o.table = value;
    } else if (name == "database") {
      o.database = value;
    } else if (name == "keyed") {
      o.keyed = number(name, value) != 0;
    } else {
      refuse("has the unknown parameter 'outbox." + name +
             "'; mysql knows outbox.table, database, connections, timeout, migrate, keyed and done_rows");
    }
  }
  return {url.connection, std::move(o)};
}
#endif

#ifdef OUTBOX_HAS_REDIS
// Its own schemes, and those that it refuses by name.
bool is_for_redis(std::string_view scheme) { return scheme.starts_with("redis") || scheme == "sentinel"; }

place<redis::options> redis_place(std::string_view text) {
  server_url const url{text};
  redis::options o;
  for (auto const& [name, value] : url.ours) {
    if (read_server_option(o, name, value)) continue;
    if (name == "name") {
      o.name = core::decoded(value);  // braces and colons, which many programs write as %7B, %7D and %3A
    } else if (name == "keyed") {
      prepare_keys(o, number(name, value) != 0);
    } else if (name == "notify") {
      o.notify = number(name, value) != 0;
    } else if (name == "replicas") {
      o.replicas = static_cast<std::size_t>(number(name, value));
    } else {
      refuse("has the unknown parameter 'outbox." + name +
             "'; redis knows outbox.name, connections, timeout, migrate, done_rows, notify and replicas");
    }
  }
  return {url.connection, std::move(o)};
}
#endif

// Reads the URL and calls `f` with the place of its store; with nothing for a store in memory.
template <class F>
auto at_place(std::string_view url, F&& f) {
  auto const colon = url.find(':');
  auto const scheme = url.substr(0, colon);
  // What else stands there is not shown: it may be a part of a password.
  bool const named = scheme.find_first_of("/@?#%&=[] \\'\"") == std::string_view::npos;
  if (colon == std::string_view::npos || !named) refuse("has no scheme: write sqlite:path/to/file.db or memory:");
#ifdef OUTBOX_HAS_POSTGRES
  if (scheme == "postgresql" || scheme == "postgres") return f(postgres_place(url));
#endif
#ifdef OUTBOX_HAS_MYSQL
  if (scheme == "mysql" || scheme == "mariadb") return f(mysql_place(url));
#endif
#ifdef OUTBOX_HAS_REDIS
  if (is_for_redis(scheme)) return f(redis_place(url));
#endif
  auto rest = url.substr(colon + 1);
  auto const question = std::min(rest.find('?'), rest.size());
  auto const given = parse_parameters(rest.substr(std::min(question + 1, rest.size())));
  rest = rest.substr(0, question);
  if (scheme == "sqlite") return f(sqlite_place(std::string{rest}, given));
  if (scheme == "memory") {
    if (!rest.empty() || !given.empty()) refuse("is more than memory:, which takes nothing");
    return f(std::monostate{});
  }
  refuse("has the unknown scheme '" + std::string{scheme} + "'; this library was built with " + std::string{schemes});
}

template <class... F>
struct cases : F... {
  using F::operator()...;
};
template <class... F>
cases(F...) -> cases<F...>;

template <class Options>
Options with(Options from, open_options const& o) {
  from.read_only = o.read_only;
  from.migrate = from.migrate && o.migrate;
  from.log = o.log;
  if (o.keyed) prepare_keys(from, true);
  if constexpr (requires { from.layout; }) from.layout = o.layout;
  return from;
}

void refuse_layout(open_options const& o, std::string const& where) {
  if (o.layout) refuse("is " + where + ", and only tables of SQL databases have a layout");
}

template <class Options>
Options with_time(Options from, open_options const& o) {
  if (o.read_timeout.count() > 0) from.timeout = o.read_timeout;
  return with(std::move(from), o);
}

}  // namespace

std::shared_ptr<store> open_store(std::string_view url, open_options o) {
  return at_place(
      url, cases{[&](place<sqlite::options> p) {
                   p.options.read_timeout = o.read_timeout;
                   return sqlite::open(p.at, with(std::move(p.options), o));
                 },
#ifdef OUTBOX_HAS_POSTGRES
                 [&](place<postgres::options> p) { return postgres::open(p.at, with_time(std::move(p.options), o)); },
#endif
#ifdef OUTBOX_HAS_MYSQL
                 [&](place<mysql::options> p) { return mysql::open(p.at, with_time(std::move(p.options), o)); },
#endif
#ifdef OUTBOX_HAS_REDIS
                 [&](place<redis::options> p) {
                   refuse_layout(o, "one of Redis");
                   return redis::open(p.at, with_time(std::move(p.options), o));
                 },
#endif
                 [&](std::monostate) -> std::shared_ptr<store> {
                   refuse_layout(o, "memory:");
                   return memory::open();
                 }});
}

std::shared_ptr<store> open_store(std::string_view url) { return open_store(url, open_options{}); }

std::shared_ptr<store> open_store(std::string_view url, table_layout const& layout) {
  return open_store(url, open_options{.layout = layout});
}

migration migrate_store(std::string_view url) { return migrate_store(url, false); }

migration migrate_store(std::string_view url, bool keyed) {
  auto const prepared = [keyed](auto options) {
    if (keyed) prepare_keys(options, true);
    return options;
  };
  return at_place(url,
                  cases{[&](place<sqlite::options> const& p) { return sqlite::migrate(p.at, prepared(p.options)); },
#ifdef OUTBOX_HAS_POSTGRES
                        [&](place<postgres::options> const& p) { return postgres::migrate(p.at, prepared(p.options)); },
#endif
#ifdef OUTBOX_HAS_MYSQL
                        [&](place<mysql::options> const& p) { return mysql::migrate(p.at, prepared(p.options)); },
#endif
#ifdef OUTBOX_HAS_REDIS
                        [](place<redis::options> const& p) { return redis::migrate(p.at, p.options); },
#endif
                        [](std::monostate) { return migration{}; }});
}

schema_state schema_of(std::string_view url) {
  return at_place(url, cases{[](place<sqlite::options> const& p) { return sqlite::schema_of(p.at, p.options); },
#ifdef OUTBOX_HAS_POSTGRES
                             [](place<postgres::options> const& p) { return postgres::schema_of(p.at, p.options); },
#endif
#ifdef OUTBOX_HAS_MYSQL
                             [](place<mysql::options> const& p) { return mysql::schema_of(p.at, p.options); },
#endif
#ifdef OUTBOX_HAS_REDIS
                             [](place<redis::options> const& p) { return redis::schema_of(p.at, p.options); },
#endif
                             [](std::monostate) -> schema_state {
                               throw error{errc::unsupported, "a store in memory has no schema"};
                             }});
}

}  // namespace outbox::inline v0
