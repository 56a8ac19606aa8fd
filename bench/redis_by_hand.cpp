#include "redis_by_hand.hpp"

#include <chrono>
#include <outbox/redis.hpp>
#include <stdexcept>
#include <thread>

#include "redis/scripts.hpp"

namespace bench::re {
namespace {

using outbox::redis::all_scripts;
using outbox::redis::script;

constexpr std::string_view lease = "30000000";

// Since 7.0 scripts may say what they need: such a server gets the same text from us as from the library.
outbox::redis::script_text const& text_for(script const& s) {
  static bool const modern = std::stoi(server_version()) >= 7;
  return s.on(modern);
}

words& call_of(words& w, script const& s) {
  w.clear();
  return w.add("EVALSHA", text_for(s).sha1, "1", prefix);
}

std::string_view text_of(redisReply const* r) { return {r->str, r->len}; }

std::string microseconds_now() {
  using namespace std::chrono;
  return std::to_string(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

// The place of a name in a list.
std::size_t place_of(redisReply const* names, std::string_view name) {
  std::size_t i = 0;
  while (text_of(names->element[i]) != name) ++i;
  return i;
}

}  // namespace

std::string place::url() const { return server(when).url(database); }

client::client(place const& p) : c_{redisConnect("127.0.0.1", server(p.when).port())} {
  if (!c_ || c_->err != 0) throw std::runtime_error{"cannot connect to the benchmark's Redis"};
  ask("SELECT " + std::to_string(p.database));
  for (auto const* const s : {&all_scripts().insert, &all_scripts().claim, &all_scripts().settle}) {
    words w;
    static_cast<void>(run(w.add("SCRIPT", "LOAD", text_for(*s).text)));
  }
}

reply client::run(words& w) const {
  reply r{static_cast<redisReply*>(redisCommandArgv(c_.get(), w.count(), w.texts(), w.lengths()))};
  if (!r) throw std::runtime_error{c_->errstr};
  if (r->type == REDIS_REPLY_ERROR) throw std::runtime_error{r->str};
  return r;
}

std::string client::ask(std::string const& command) const {
  reply const r{static_cast<redisReply*>(redisCommand(c_.get(), command.c_str()))};
  if (!r) throw std::runtime_error{c_->errstr};
  if (r->type == REDIS_REPLY_ERROR) throw std::runtime_error{r->str};
  return r->type == REDIS_REPLY_INTEGER ? std::to_string(r->integer) : std::string{text_of(r.get())};
}

// `durable` puts it on a real disk and flushes before each answer, which a later line of its settings takes back.
outbox::redis_server& server(fsync when) {
  auto const start = [](std::string const& flushed) {
    return outbox::redis_server::setup{.settings = {"appendfsync " + flushed, "auto-aof-rewrite-percentage 0"},
                                       .durable = true};
  };
  if (when == fsync::always) {
    static outbox::redis_server one{start("always")};
    return one;
  }
  static outbox::redis_server one{start("everysec")};
  return one;
}

std::string server_version() {
  auto const info = server(fsync::everysec).ask({"INFO", "server"});
  auto const at = info.find("redis_version:") + 14;
  return info.substr(at, info.find('\r', at) - at);
}

// Else the file would grow over the rounds, or be rewritten in the middle of one.
place new_place(fsync when, int database) {
  place const p{when, database};
  client const c{p};
  c.ask("FLUSHDB");
  c.ask("BGREWRITEAOF");
  auto const under_way = [&] {
    auto const info = c.ask("INFO persistence");
    return info.find("aof_rewrite_in_progress:1") != info.npos || info.find("aof_rewrite_scheduled:1") != info.npos;
  };
  while (under_way()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  outbox::redis::migrate(p.url(), {.log = nullptr});
  return p;
}

std::string writer_by_hand::write(std::string const& id, std::string const& payload, std::string_view token) {
  auto const now = microseconds_now();
  auto const size = std::to_string(id.size() + payload.size() + 22);
  call_of(w_, all_scripts().insert).add("0", "1", id, token, lease, "", "0", "", payload, "12");
  w_.add("event_type", "order.placed", "aggregate_type", "__GLOBAL__", "payload_kind", "json");
  w_.add("content_type", "application/json", "created_at", now, "size", size);
  return std::to_string(c_.run(w_)->element[0]->integer);
}

void drainer_by_hand::settle(std::vector<taken> const& events) {
  call_of(w_, all_scripts().settle).add("0");
  for (auto const& e : events) w_.add(e.id, token, "done", "1", "0", "", "", "", e.number);
  static_cast<void>(c_.run(w_));
}

std::size_t drainer_by_hand::drain_some(std::size_t limit) {
  auto const most = std::to_string(limit);
  call_of(w_, all_scripts().claim).add(token, most, "67108864", lease, "5", "0", "0", "0", "0", "0", "", most);
  w_.add("0", "0", "0", "0", "0");
  auto const claimed = c_.run(w_);
  auto const* const rows = claimed->element[12];
  auto const seq = place_of(claimed->element[13], "seq");
  std::vector<taken> events;
  std::vector<std::string> payloads;  // what the listener would get
  for (std::size_t i = 0; i < rows->elements; ++i) {
    auto const* const row = rows->element[i];
    events.push_back({std::string{text_of(row->element[0])}, std::string{text_of(row->element[2]->element[seq])}});
    payloads.emplace_back(text_of(row->element[1]));
  }
  if (!events.empty()) settle(events);
  return events.size();
}

void fill(place const& p, rows_to_fill const& what, std::string const& payload) {
  static std::string const text = std::string{outbox::redis::write_script()} + R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2] - ARGV[5] * 1000000
local seq = redis.call('HINCRBY', KEYS[1] .. 'figures', 'seq', ARGV[3]) - ARGV[3]
for i = 1, tonumber(ARGV[3]) do
  local n = ARGV[2] + i
  outbox.insert(KEYS[1], now + n * 1000 * (ARGV[5] == '0' and 0 or 1), seq + i, ARGV[1] .. '-' .. n, '', 0, '',
                ARGV[6] * 1000000, '', ARGV[7], {'event_type', ARGV[4], 'aggregate_type', '__GLOBAL__', 'payload_kind',
                'json', 'content_type', 'application/json', 'created_at', string.format('%.0f', now), 'size', '200'},
                false)
end)lua";
  client const c{p};
  auto const ago = std::to_string(what.inserted_ago);
  auto const delay = std::to_string(what.delay);
  constexpr int at_once = 1000;
  for (int from = 0; from < what.count; from += at_once) {
    auto const first = std::to_string(from);
    auto const count = std::to_string(std::min(at_once, what.count - from));
    words w;
    w.add("EVAL", text, "1", prefix, what.id, first, count, what.type, ago, delay, payload);
    static_cast<void>(c.run(w));
  }
}

}  // namespace bench::re
