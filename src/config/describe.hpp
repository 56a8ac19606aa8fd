// Every setting of a configuration: its name, where its value goes, and what it may be. Names are those of the options.
//
// Each function is used twice: with a `reader`, which fills the options in, and with a `lister`, which makes the list
// that the reference is compared with.
#pragma once

#include <map>
#include <outbox/config.hpp>
#include <outbox/options.hpp>
#include <outbox/sinks/json_lines.hpp>
#include <outbox/table_layout.hpp>

#include "config/reader.hpp"

namespace outbox::inline v0::configuration {

enum class mode { none, single_node, multi_node, ordered, keyed, writer_only };

struct route_data {
  std::string event_type, aggregate_type, sink, listener;
  route_options options;
  publish_options message;
  std::string where, path;  ///< Where the route stands, and its key: "routes[0]".
};

struct table_data {
  std::string label;  ///< In the log and in errors: "table", or the name of one of several.
  mode runs = mode::none;
  std::string url;
  std::optional<table_layout> layout;
  node_options node;
  outbox::v0::on_dead on_dead = outbox::v0::on_dead::park;
  std::optional<age_purge_options> age_purge;
  std::vector<route_data> routes;
  std::string where, path;  ///< Where the table stands, and its key: empty, or "tables[0]".
};

enum class sink_type { none, kafka, webhook, json_lines };

/// Those of `kafka::options`, which is not there if the library was built without Kafka.
struct kafka_data {
  std::string bootstrap_servers{};
  std::chrono::milliseconds message_timeout{30'000};
  std::vector<std::pair<std::string, std::string>> properties{};
};

/// Those of `webhook::options`, which is not there if the library was built without libcurl. Secrets have names, which
/// tell the old one from the new one while it is replaced.
struct webhook_data {
  std::string url{};
  std::vector<std::pair<std::string, std::string>> secrets{};
  std::chrono::milliseconds timeout{15'000};
  std::size_t max_in_flight = 16;
  std::vector<std::pair<std::string, std::string>> headers{};
  bool allow_http = false;
  bool allow_private_addresses = false;
  std::string ca_file{};
};

struct sink_data {
  std::string name;
  sink_type type = sink_type::none;
  kafka_data kafka;
  webhook_data webhook;
  json_lines::options lines;
  std::string where;
};

template <class R>
void describe(R& r, backoff& b) {
  r.field("base", b.base);
  r.field("cap", b.cap);
}

template <class R>
void describe(R& r, retry_policy& p) {
  r.field("max_attempts", p.max_attempts);
  r.field("jitter", p.jitter);
  r.section("backoff", [&](auto& inside) { describe(inside, p.backoff); });
}

template <class R>
void describe(R& r, poll_options& o) {
  r.field("every", o.every);
  r.field("batch", o.batch);
  r.field("max_batch", o.max_batch);
  r.field("skip_recent", o.skip_recent);
  r.field("drain", o.drain);
}

template <class R>
void describe(R& r, queue_options& o) {
  r.field("hot", o.hot);
  r.field("cold", o.cold);
  r.field("bytes", o.bytes);
}

template <class R>
void describe(R& r, lease_options& o) {
  r.field("duration", o.duration);
  r.field("max_crashes", o.max_crashes);
}

template <class R>
void describe(R& r, purge_options& o) {
  r.field("keep", o.keep);
  r.field("batch", o.batch);
  r.field("every", o.every);
  r.field("done", o.done);
  r.field("dead", o.dead);
}

template <class R>
void describe(R& r, age_purge_options& o) {
  r.field("keep", o.keep);
  r.field("batch", o.batch);
  r.field("every", o.every);
}

template <class R>
void describe(R& r, event_limits& o) {
  r.field("payload_bytes", o.payload_bytes);
  r.field("header_count", o.header_count);
  r.field("header_bytes", o.header_bytes);
  r.field("json_depth", o.json_depth);
}

template <class R>
void describe(R& r, route_data& d) {
  r.field("event_type", d.event_type);
  r.field("aggregate_type", d.aggregate_type);
  r.field("sink", d.sink);
  r.field("listener", d.listener);
  r.field("name", d.options.name);
  r.field("timeout", d.options.timeout);
  r.field("max_in_flight", d.options.max_in_flight);
  r.field("keeps_order", d.options.keeps_order);
  r.section("retry", d.options.retry, [](auto& inside, retry_policy& p) { describe(inside, p); });
  r.field("topic", d.message.topic);
  r.field("key", d.message.key);
  r.field("partition", d.message.partition);
  r.texts("headers", d.message.headers, false);
  r.field("cloud_events", d.message.cloud_events);
}

// What a node has that delivers, in every mode.
template <class R>
void describe_delivery(R& r, table_data& t) {
  static constexpr choice<unroutable> without_listener[] = {{"dead", unroutable::dead}, {"defer", unroutable::defer}};
  static constexpr choice<stop_queued> at_stop[] = {{"deliver", stop_queued::deliver},
                                                    {"release", stop_queued::release}};
  auto& o = t.node;
  r.field("name", o.name);
  r.field("listener_timeout", o.listener_timeout);
  r.one_of("unroutable", o.unroutable, without_listener);
  r.field("stop_timeout", o.stop_timeout);
  r.one_of("stop_queued", o.stop_queued, at_stop);
  r.section("poll", [&](auto& inside) { describe(inside, o.poll); });
  r.section("lease", [&](auto& inside) { describe(inside, o.lease); });
  r.section("purge", o.purge, [](auto& inside, purge_options& p) { describe(inside, p); });
  r.list("routes", [&](auto& inside) {
    auto& one = t.routes.emplace_back();
    one.where = inside.where();
    one.path = inside.path();
    describe(inside, one);
  });
}

// What an `ordered` node does not have.
template <class R>
void describe_concurrency(R& r, table_data& t) {
  r.field("workers", t.node.workers);
  r.field("hot_path", t.node.hot_path);
  r.section("retry", [&](auto& inside) { describe(inside, t.node.retry); });
  r.section("queue", [&](auto& inside) { describe(inside, t.node.queue); });
}

// What only a `keyed` node has.
template <class R>
void describe_order(R& r, table_data& t) {
  static constexpr choice<on_dead> at_death[] = {{"park", on_dead::park}, {"skip", on_dead::skip}};
  r.one_of("on_dead", t.on_dead, at_death);
}

/// The layouts that have a name.
enum class layout_profile { none, polled_outbox };

// The profile comes first: what else is set changes a part of it.
template <class R>
void describe(R& r, table_layout& l) {
  static constexpr choice<layout_profile> profiles[] = {{"none", layout_profile::none},
                                                        {"polled_outbox", layout_profile::polled_outbox}};
  static constexpr choice<id_kind> kinds[] = {{"text", id_kind::text}, {"uuid", id_kind::uuid}};
  auto profile = layout_profile::none;
  r.one_of("profile", profile, profiles);
  if (profile == layout_profile::polled_outbox) l = layouts::polled_outbox();
  r.field("table", l.table);
  r.field("id", l.id);
  r.field("event_type", l.event_type);
  r.field("aggregate_type", l.aggregate_type);
  r.field("aggregate_id", l.aggregate_id);
  r.field("payload", l.payload);
  r.field("status", l.status);
  r.field("created_at", l.created_at);
  r.field("done_at", l.done_at);
  r.field("error", l.error);
  r.field("tenant", l.tenant);
  r.field("headers", l.headers);
  r.field("attempts", l.attempts);
  r.field("pending", l.pending);
  r.field("done", l.done);
  r.field("dead", l.dead);
  r.one_of("ids", l.ids, kinds);
  r.one_of("aggregate_ids", l.aggregate_ids, kinds);
  r.field("needs_aggregate", l.needs_aggregate);
  r.field("id_in_payload", l.id_in_payload);
  r.field("remembered", l.remembered);
}

template <class R>
void describe(R& r, table_data& t) {
  static constexpr choice<mode> modes[] = {{"single_node", mode::single_node},
                                           {"multi_node", mode::multi_node},
                                           {"ordered", mode::ordered},
                                           {"keyed", mode::keyed},
                                           {"writer_only", mode::writer_only}};
  r.one_of("mode", t.runs, modes);
  r.require("mode", "mode = \"multi_node\", \"keyed\", \"single_node\", \"ordered\" or \"writer_only\"");
  r.section("store", [&](auto& inside) {
    inside.secret("url", t.url);
    inside.require("url", "url = \"sqlite:shop.db\"");
    inside.section("layout", t.layout, [](auto& within, table_layout& l) { describe(within, l); });
  });
  r.require("store", "url = \"sqlite:shop.db\" under [store]");
  r.section("limits", [&](auto& inside) { describe(inside, t.node.limits); });
  if (t.runs == mode::writer_only) {
    r.section("purge", t.age_purge, [](auto& inside, age_purge_options& p) { describe(inside, p); });
    return;
  }
  // As in keyed_options: a dead event of a new type would park its key.
  if (t.runs == mode::keyed) t.node.unroutable = unroutable::defer;
  describe_delivery(r, t);
  if (t.runs != mode::ordered) describe_concurrency(r, t);
  if (t.runs == mode::keyed || t.runs == mode::none) describe_order(r, t);
}

template <class R>
void describe(R& r, webhook_data& w) {
  r.address("url", w.url);
  r.texts("secrets", w.secrets, true);
  r.field("timeout", w.timeout);
  r.field("max_in_flight", w.max_in_flight);
  r.texts("headers", w.headers, true);
  r.field("allow_http", w.allow_http);
  r.field("allow_private_addresses", w.allow_private_addresses);
  r.field("ca_file", w.ca_file);
}

template <class R>
void describe(R& r, sink_data& s) {
  static constexpr choice<sink_type> types[] = {
      {"kafka", sink_type::kafka}, {"webhook", sink_type::webhook}, {"json_lines", sink_type::json_lines}};
  r.one_of("type", s.type, types);
  r.require("type", "type = \"kafka\", \"webhook\" or \"json_lines\"");
  auto const is = [&](sink_type t) { return s.type == t || s.type == sink_type::none; };
  if (is(sink_type::kafka)) {
    r.field("bootstrap_servers", s.kafka.bootstrap_servers);
    r.field("message_timeout", s.kafka.message_timeout);
    r.texts("properties", s.kafka.properties, true);
  }
  if (is(sink_type::webhook)) describe(r, s.webhook);
  if (is(sink_type::json_lines)) {
    r.field("path", s.lines.path);
    r.field("sync", s.lines.sync);
  }
}

template <class R>
void describe(R& r, relay_settings& s) {
  static constexpr choice<log_level> levels[] = {{"debug", log_level::debug},
                                                 {"info", log_level::info},
                                                 {"warning", log_level::warning},
                                                 {"error", log_level::error}};
  static constexpr choice<log_form> forms[] = {
      {"logfmt", log_form::logfmt}, {"json", log_form::json}, {"journal", log_form::journal}};
  r.section("log", [&](auto& inside) {
    inside.one_of("level", s.least, levels);
    inside.one_of("format", s.form, forms);
  });
  r.section("http", [&](auto& inside) { inside.field("listen", s.http); });
}

}  // namespace outbox::inline v0::configuration
