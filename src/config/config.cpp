#include <algorithm>
#include <fstream>
#include <outbox/config.hpp>
#include <outbox/memory.hpp>
#include <outbox/open_store.hpp>
#include <outbox/result.hpp>
#include <outbox/spi/store.hpp>
#include <sstream>
#ifdef OUTBOX_HAS_KAFKA
#include <outbox/sinks/kafka.hpp>
#endif
#ifdef OUTBOX_HAS_WEBHOOK
#include <outbox/sinks/webhook.hpp>
#endif

#include "config/describe.hpp"
#include "config/lister.hpp"

namespace outbox::inline v0 {

using namespace configuration;

config_error::config_error(std::vector<std::string> problems)
    : error{errc::invalid_option,
            [&] {
              std::string text;
              for (auto const& p : problems) text += (text.empty() ? "" : "\n") + p;
              return text;
            }()},
      problems_{std::move(problems)} {}
config_error::~config_error() = default;

struct config::data {
  std::vector<table_data> tables;
  std::vector<sink_data> sinks;
  relay_settings relay;
  findings found;
};

namespace {

template <class R>
void describe_tables(R& r, std::vector<table_data>& tables) {
  r.list("tables", [&](auto& inside) {
    auto& t = tables.emplace_back();
    t.where = inside.where();
    t.path = inside.path();
    inside.field("label", t.label);
    describe(inside, t);
  });
}

template <class R>
void describe_sinks(R& r, std::vector<sink_data>& sinks) {
  r.tables("sinks", [&](std::string const& name, auto& inside) {
    auto& s = sinks.emplace_back();
    s.name = name;
    s.where = inside.where();
    describe(inside, s);
  });
}

std::string file_text(config_source const& from, std::vector<std::string>& problems) {
  if (from.text) return *from.text;
  if (from.file.empty()) return {};
  std::ifstream in{from.file, std::ios::binary};
  std::stringstream text;
  text << in.rdbuf();
  if (!in) problems.push_back(from.file + ": cannot be read");
  return text.str();
}

#ifdef OUTBOX_HAS_KAFKA
kafka::options kafka_options(sink_data const& s) {
  kafka::options o{
      .bootstrap_servers = s.kafka.bootstrap_servers, .message_timeout = s.kafka.message_timeout, .name = s.name};
  o.properties.insert(s.kafka.properties.begin(), s.kafka.properties.end());
  return o;
}
#endif

#ifdef OUTBOX_HAS_WEBHOOK
webhook::options webhook_options(sink_data const& s) {
  webhook::options o{.url = s.webhook.url,
                     .timeout = s.webhook.timeout,
                     .max_in_flight = s.webhook.max_in_flight,
                     .headers = s.webhook.headers,
                     .allow_http = s.webhook.allow_http,
                     .allow_private_addresses = s.webhook.allow_private_addresses,
                     .ca_file = s.webhook.ca_file,
                     .name = s.name};
  for (auto const& [name, secret] : s.webhook.secrets) o.secrets.push_back(secret);
  return o;
}
#endif

[[maybe_unused, noreturn]] void was_left_out(std::string const& type, std::string const& library) {
  throw error::about(errc::invalid_option, "type", "is '" + type + "', and this library was built without " + library);
}

void check_sink(sink_data const& s) {
  if (s.type == sink_type::kafka) {
#ifdef OUTBOX_HAS_KAFKA
    kafka::check(kafka_options(s));
#else
    was_left_out("kafka", "Kafka");
#endif
  }
  if (s.type == sink_type::webhook) {
#ifdef OUTBOX_HAS_WEBHOOK
    webhook::check(webhook_options(s));
#else
    was_left_out("webhook", "libcurl");
#endif
  }
}

std::shared_ptr<sink> open_sink(sink_data const& s, log_function const& log) {
#ifdef OUTBOX_HAS_KAFKA
  if (s.type == sink_type::kafka) {
    auto o = kafka_options(s);
    o.log = log;
    return kafka::open(std::move(o));
  }
#endif
#ifdef OUTBOX_HAS_WEBHOOK
  if (s.type == sink_type::webhook) return webhook::open(webhook_options(s));
#endif
  static_cast<void>(log);
  auto o = s.lines;
  o.name = s.name;
  return json_lines::open(std::move(o));
}

constexpr auto no_limit = std::chrono::milliseconds::max();
constexpr std::string_view own_key = "all messages of a key must share a partition";

using open_sinks = std::map<std::string, std::shared_ptr<sink>>;

void add_listener(listeners& to, route_data const& r, named_listener f) {
  if (r.event_type == "*") {
    if (!r.aggregate_type.empty()) {
      throw error::about(errc::invalid_option, "aggregate_type", "is not for a route of every event type");
    }
    to.on_any(std::move(f), r.options);
  } else if (r.aggregate_type.empty()) {
    to.on(r.event_type, std::move(f), r.options);
  } else {
    to.on(r.aggregate_type, r.event_type, std::move(f), r.options);
  }
}

// The timeout of a route that publishes is long enough unless the configuration makes it shorter.
void check_timeout(table_data const& t, route_data const& r, std::chrono::milliseconds patience) {
  auto const timeout = r.options.timeout.value_or(t.node.listener_timeout);
  if (patience == no_limit) {
    if (!r.options.timeout || r.options.timeout->count() == 0) return;  // the publisher takes the limit away
    throw error::about(
        errc::invalid_option, "timeout",
        "is " + duration_text(timeout) + " and must be 0, because sink '" + r.sink + "' never gives a message up");
  }
  if (timeout.count() != 0 && timeout <= patience) {
    throw error::about(errc::invalid_option, r.options.timeout ? "timeout" : "listener_timeout",
                       "is " + duration_text(timeout) + " and must be longer than the " + duration_text(patience) +
                           " that sink '" + r.sink + "' may take for a message");
  }
}

keyed_options keyed_node(table_data const& t, std::shared_ptr<store> s, listeners l, config_extras const& with) {
  keyed_options o;
  o.store = std::move(s);
  o.listeners = std::move(l);
  o.workers = t.node.workers;
  o.name = t.node.name;
  o.poll = t.node.poll;
  o.retry = t.node.retry;
  o.queue = t.node.queue;
  o.lease = t.node.lease;
  o.on_dead = t.on_dead;
  o.listener_timeout = t.node.listener_timeout;
  o.hot_path = t.node.hot_path;
  o.unroutable = t.node.unroutable;
  o.limits = t.node.limits;
  o.stop_timeout = t.node.stop_timeout;
  o.stop_queued = t.node.stop_queued;
  o.log = with.log;
  o.metrics = with.metrics;
  o.purge = t.node.purge;
  o.hook = with.hook;
  o.interceptors = with.interceptors;
  return o;
}

node make_node(table_data const& t, std::shared_ptr<store> s, listeners l, config_extras const& with) {
  if (t.runs == mode::writer_only) {
    return writer_only(
        {.store = std::move(s), .limits = t.node.limits, .hook = with.hook, .purge = t.age_purge, .log = with.log});
  }
  if (t.runs == mode::ordered) {
    ordered_options o{.store = std::move(s),
                      .listeners = std::move(l),
                      .name = t.node.name,
                      .poll = t.node.poll,
                      .lease = t.node.lease,
                      .listener_timeout = t.node.listener_timeout,
                      .unroutable = t.node.unroutable,
                      .limits = t.node.limits,
                      .stop_timeout = t.node.stop_timeout,
                      .stop_queued = t.node.stop_queued,
                      .log = with.log,
                      .metrics = with.metrics};
    o.purge = t.node.purge;
    o.hook = with.hook;
    o.interceptors = with.interceptors;
    return ordered(std::move(o));
  }
  if (t.runs == mode::keyed) return keyed(keyed_node(t, std::move(s), std::move(l), with));
  node_options o;
  o.store = std::move(s);
  o.listeners = std::move(l);
  o.workers = t.node.workers;
  o.name = t.node.name;
  o.poll = t.node.poll;
  o.retry = t.node.retry;
  o.queue = t.node.queue;
  o.lease = t.node.lease;
  o.listener_timeout = t.node.listener_timeout;
  o.hot_path = t.node.hot_path;
  o.unroutable = t.node.unroutable;
  o.limits = t.node.limits;
  o.stop_timeout = t.node.stop_timeout;
  o.stop_queued = t.node.stop_queued;
  o.log = with.log;
  o.metrics = with.metrics;
  o.hook = with.hook;
  o.interceptors = with.interceptors;
  o.purge = t.node.purge;
  return t.runs == mode::single_node ? single_node(std::move(o)) : multi_node(std::move(o));
}

/// Finds what reading alone cannot see: names that are not there, options that do not fit, templates.
class checker {
 public:
  checker(std::vector<sink_data> const& sinks, config_extras const& with, findings& found)
      : sinks_{sinks}, with_{with}, found_{found} {
    for (auto const& s : sinks_) attempt("sinks." + s.name, s.where, [&] { check_sink(s); });
  }

  void check(table_data const& t) {
    if (t.runs == mode::none) return;  // said already
    listeners all;
    for (auto const& r : t.routes) attempt(r.path, r.where, [&] { check(t, r, all); });
    if (t.routes.empty() && t.runs != mode::writer_only) {
      found_.problems.push_back(place({}, t.where) + ": routes is missing: without one, nothing would be delivered");
    }
    if (t.runs == mode::keyed && t.layout) attempt(t.path, t.where, [] { refuse_layout(); });
    attempt(t.path, t.where,
            [&] { static_cast<void>(make_node(t, memory::open(), std::move(all), {.log = nullptr})); });
  }

 private:
  void check(table_data const& t, route_data const& r, listeners& all) {
    if (r.event_type.empty())
      throw error::about(errc::invalid_option, "event_type", "is missing: write a type, or \"*\"");
    if (r.sink.empty() == r.listener.empty()) {
      throw error::about(errc::invalid_option, "sink", "or listener is needed, and not both");
    }
    envelope const rules{r.message};
    if (r.options.keeps_order) check_order(t, r);
    if (!r.sink.empty()) check_timeout(t, r, patience_of(r.sink));
    if (!r.listener.empty() && !with_.listeners.contains(r.listener))
      unknown("listener", r.listener, names(with_.listeners));
    add_listener(all, r, [](delivery const&, completion) {});
  }

  [[noreturn]] static void refuse_layout() {
    throw error::about(errc::invalid_option, "store.layout",
                       "is not for keyed: a table of another shape has no column for the order of keys");
  }

  [[nodiscard]] sink_data const& sink_named(std::string const& sink) const {
    auto const s = std::ranges::find(sinks_, sink, &sink_data::name);
    if (s != sinks_.end()) return *s;
    std::vector<std::string> known;
    known.reserve(sinks_.size());
    for (auto const& one : sinks_) known.push_back(one.name);
    unknown("sink", sink, known);
  }

  // As the sinks themselves say.
  [[nodiscard]] std::chrono::milliseconds patience_of(std::string const& sink) const {
    auto const& s = sink_named(sink);
    using namespace std::chrono_literals;
    if (s.type == sink_type::kafka) return s.kafka.message_timeout == 0ms ? no_limit : s.kafka.message_timeout + 4s;
    return s.type == sink_type::webhook ? 2 * s.webhook.timeout + 1s : 10s;
  }

  // As a publisher checks it. A listener of the application may keep order in ways that nothing here can see.
  void check_order(table_data const& t, route_data const& r) const {
    auto const refuse = [](std::string const& field, std::string const& problem) {
      throw error::about(errc::invalid_option, field, problem);
    };
    if (t.runs != mode::keyed) refuse("keeps_order", "is for mode = \"keyed\" only");
    if (r.sink.empty()) return;
    if (sink_named(r.sink).type != sink_type::kafka) {
      refuse("keeps_order", "is for sinks that keep the order of their messages, and '" + r.sink + "' does not");
    }
    if (sink_named(r.sink).kafka.message_timeout.count() != 0) {
      refuse("keeps_order", "needs message_timeout = 0 in [sinks." + r.sink +
                                "]: a message that times out is overtaken by later ones of its key");
    }
    if (!r.message.key.empty()) refuse("key", "cannot be set beside keeps_order: " + std::string{own_key});
    if (!r.message.partition.empty()) refuse("partition", "cannot be set beside keeps_order: " + std::string{own_key});
  }

  template <class M>
  [[nodiscard]] static std::vector<std::string> names(M const& map) {
    std::vector<std::string> all;
    all.reserve(map.size());
    for (auto const& [name, v] : map) all.push_back(name);
    return all;
  }

  [[noreturn]] static void unknown(std::string const& field, std::string const& name,
                                   std::vector<std::string> const& known) {
    auto const like = nearest(name, known);
    throw error::about(
        errc::invalid_option, field,
        "is '" + name + "', and there is none of that name" + (like ? ": did you mean '" + *like + "'?" : ""));
  }

  // Where the setting stands that an error is about; else where its table stands.
  [[nodiscard]] std::string place(std::string const& key, std::string const& where) const {
    for (auto const& [name, at] : found_.places) {
      if (name == key) return at;
    }
    return where.empty() ? "configuration" : where;
  }

  template <class F>
  void attempt(std::string const& path, std::string const& where, F&& f) {
    auto const within = path.empty() ? std::string{} : path + ".";
    try {
      f();
    } catch (error const& e) {
      found_.problems.push_back(place(within + std::string{e.field()}, where) + ": " + within + e.what());
    }
  }

  std::vector<sink_data> const& sinks_;
  config_extras const& with_;
  findings& found_;
};

}  // namespace

config::config(std::unique_ptr<data> d) noexcept : data_{std::move(d)} {}
config::config(config&&) noexcept = default;
config& config::operator=(config&&) noexcept = default;
config::~config() = default;

config config::read(config_source const& from, config_extras const& with) {
  auto d = std::make_unique<data>();
  auto& problems = d->found.problems;
  auto tree = from_toml(file_text(from, problems), from.file.empty() ? "configuration" : from.file, problems);
  if (problems.empty()) {
    add_environment(tree, from.environment ? *from.environment : process_environment(), problems);
    tree.where = from.file;
    reader all{tree, {}, d->found};
    describe(all, d->relay);
    describe_sinks(all, d->sinks);
    describe_tables(all, d->tables);
    // Either one table, whose settings stand at the top, or several.
    if (d->tables.empty()) {
      auto& one = d->tables.emplace_back();
      one.where = from.file;
      describe(all, one);
    }
  }
  if (problems.empty()) {
    checker all{d->sinks, with, d->found};
    for (auto const& t : d->tables) all.check(t);
  }
  if (!problems.empty()) throw config_error{std::move(problems)};
  return config{std::move(d)};
}

relay_settings const& config::relay() const noexcept { return data_->relay; }

std::string config::summary() const {
  std::string text;
  for (auto const& line : data_->found.said) text += line + "\n";
  return text;
}

namespace {

// As `listeners` choose.
route_data const* route_for(table_data const& t, event const& e) {
  route_data const* best = nullptr;
  int best_rank = 0;
  for (auto const& r : t.routes) {
    bool const typed = r.event_type == e.type();
    bool const exact = typed && r.aggregate_type == e.aggregate_type();
    int const rank = exact ? 3 : typed && r.aggregate_type.empty() ? 2 : r.event_type == "*" ? 1 : 0;
    if (rank > best_rank) {
      best = &r;
      best_rank = rank;
    }
  }
  return best;
}

std::string way_of(table_data const& t, event const& e) {
  auto const* const r = route_for(t, e);
  if (r == nullptr)
    return t.node.unroutable == unroutable::dead ? "no route: it would be DEAD" : "no route: it would wait";
  if (!r->listener.empty()) return "listener '" + r->listener + "'";
  try {
    auto const m = envelope{r->message}.make(e);
    return "sink '" + r->sink + "', topic '" + m.topic + "'" + (m.key ? ", key '" + *m.key + "'" : ", no key") +
           (m.partition ? ", partition " + std::to_string(*m.partition) : "");
  } catch (permanent_failure const& f) {
    return std::string{"it would be DEAD: "} + f.what();
  }
}

}  // namespace

std::string config::preview(std::size_t events) const {
  std::string text;
  for (auto const& t : data_->tables) {
    auto const s = open_store(t.url, {.read_only = true, .layout = t.layout});
    auto const c = s->inspect().counts();
    text += (t.label.empty() ? "table" : t.label) + ": " + std::to_string(c.created) + " waiting, " +
            std::to_string(c.retry) + " to be tried again, " + std::to_string(c.dead) + " dead\n";
    auto const rows = s->backend().list({.statuses = {event_status::created, event_status::retry}},
                                        spi::list_order::oldest_first, events);
    for (auto const& r : rows) text += "  " + r.event.id() + " " + r.event.type() + " -> " + way_of(t, r.event) + "\n";
  }
  return text;
}

std::vector<std::string> config::tables() const {
  std::vector<std::string> names;
  for (auto const& t : data_->tables) names.push_back(t.label);
  return names;
}

configuration::table_data const& config::table(std::string_view label) const {
  for (auto const& t : data_->tables) {
    if (t.label == label) return t;
  }
  throw error::about(errc::invalid_option, "table", "'" + std::string{label} + "' is not in the configuration");
}

std::string config::url_of(std::string_view label) const { return without_password(table(label).url); }
std::string config::secret_url_of(std::string_view label) const { return table(label).url; }
bool config::has_layout(std::string_view label) const { return table(label).layout.has_value(); }

std::shared_ptr<store> config::open_table(std::string_view label, open_options o) const {
  auto const& t = table(label);
  o.layout = t.layout;
  return open_store(t.url, std::move(o));
}

migration config::migrate_table(std::string_view label, bool keyed) const {
  auto const& t = table(label);
  if (t.layout) throw error::about(errc::invalid_option, "table", "has a layout: its schema belongs to its program");
  return migrate_store(t.url, keyed || t.runs == mode::keyed);
}

schema_state config::schema_of_table(std::string_view label) const {
  auto const& t = table(label);
  if (t.layout) throw error::about(errc::invalid_option, "table", "has a layout: its schema belongs to its program");
  return schema_of(t.url);
}

namespace {

// The label of a table or, if it has none, what its store calls it; with a number if that was given before.
std::string name_in(config::opened const& so_far, table_data const& t, store const& s) {
  auto const name = t.label.empty() ? std::string{s.capabilities().table} : t.label;
  auto const taken = [&](std::string const& one) {
    return std::ranges::any_of(so_far.stores, [&](auto const& other) { return other.first == one; });
  };
  auto unique = name;
  for (int n = 2; taken(unique); ++n) unique = name + " " + std::to_string(n);
  return unique;
}

}  // namespace

config::opened config::open(config_extras with) const {
  opened all;
  open_sinks by_name;
  for (auto const& s : data_->sinks) {
    all.sinks.push_back(open_sink(s, with.log));
    by_name.emplace(s.name, all.sinks.back());
  }
  for (auto const& t : data_->tables) {
    listeners l;
    for (auto const& r : t.routes) {
      if (r.sink.empty()) {
        add_listener(l, r, with.listeners.at(r.listener));
      } else {
        auto to = publish(by_name.at(r.sink), r.message);
        auto one = r;
        one.options = to.fit(std::move(one.options));
        add_listener(l, one, std::move(to));
      }
    }
    auto s = open_store(t.url, {.log = with.log, .layout = t.layout, .keyed = t.runs == mode::keyed});
    all.stores.emplace_back(name_in(all, t, *s), s);
    if (with.metrics_for) with.metrics = with.metrics_for(all.stores.back().first);
    all.nodes.emplace_back(t.label, make_node(t, std::move(s), std::move(l), with));
  }
  return all;
}

node node_from_config(std::string const& file, config_extras with) {
  auto const c = config::read({.file = file}, with);
  auto all = c.open(std::move(with));
  if (all.nodes.size() != 1) throw config_error{{file + ": has several tables: use outbox::config"}};
  return std::move(all.nodes.front().second);
}

std::string shown_url(std::string_view url) { return without_password(url); }

std::vector<config_key> all_config_keys() {
  std::vector<config_key> all;
  lister top{{}, all};
  table_data table;
  describe(top, table);
  std::vector<sink_data> sinks;
  describe_sinks(top, sinks);
  relay_settings relay;
  describe(top, relay);
  return all;
}

}  // namespace outbox::inline v0
