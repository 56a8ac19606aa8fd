#include "bench/measure.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/node.hpp>
#include <outbox/spi/store.hpp>
#include <thread>

#include "cli/time_text.hpp"

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr std::size_t most_samples = 200'000;  // so that memory and the place stay small
constexpr std::size_t fill_batch = 100;        // events of a transaction that only fills the table
constexpr int most_conflicts_in_a_row = 20;

double seconds_since(steady::time_point t) { return std::chrono::duration<double>{steady::now() - t}.count(); }

// One kind of work for its part of the time.
class turn {
 public:
  turn(console const& to, interruption const& stop, std::string title, std::chrono::nanoseconds time)
      : to_{to}, stop_{stop}, title_{std::move(title)}, time_{time} {
    if (!to_.can_redraw()) to_.say("  " + title_ + " …");
  }
  turn(turn const&) = delete;
  turn& operator=(turn const&) = delete;
  ~turn() { to_.redraw(""); }

  /// From now on the time counts; before, connections and tables were made.
  void begin() { began_ = steady::now(); }

  // Thread-safe.
  [[nodiscard]] bool goes_on() const { return !stop_.came() && steady::now() < began_ + time_; }
  [[nodiscard]] steady::time_point end() const { return began_ + time_; }

  /// Draws a line, ten times a second at most. For the thread that made it.
  void show() {
    auto const now = steady::now();
    if (now - drawn_ < 100ms) return;
    drawn_ = now;
    constexpr int width = 30;
    auto const share = std::chrono::duration<double>{now - began_} / std::chrono::duration<double>{time_};
    auto const full = std::clamp(static_cast<int>(share * width), 0, width);
    std::string line;
    for (int i = 0; i < width; ++i) line += i < full ? "█" : "░";
    to_.redraw(line + " " + title_);
  }

 private:
  console const& to_;
  interruption const& stop_;
  std::string title_;
  std::chrono::nanoseconds time_;
  steady::time_point began_ = steady::now(), drawn_{};
};

// Writes until the turn ends. A conflict is counted and the next transaction follows.
struct writer_loop {
  bench_session& session;
  outbox::writer const& writer;
  std::string const& payload;
  samples taken{};
  std::uint64_t conflicts = 0;

  template <class Show>
  void run(turn const& t, Show const& show) {
    int in_a_row = 0;
    while (t.goes_on() && taken.size() < most_samples) {
      auto const from = steady::now();
      try {
        session.write(writer, payload);
        taken.add(steady::now() - from);
        in_a_row = 0;
      } catch (outbox::error const& e) {
        ++conflicts;
        if (!e.transient() || ++in_a_row == most_conflicts_in_a_row) throw;
      }
      show();
    }
  }
};

outbox::node writing_node(std::shared_ptr<outbox::store> to) {
  return outbox::writer_only({.store = std::move(to), .log = nullptr});
}

outbox::multi_node_options delivering(bench_place const& where, std::string const& table) {
  outbox::multi_node_options o;
  o.store = where.open(table);
  o.log = nullptr;
  o.stop_timeout = 1s;
  o.stop_queued = outbox::stop_queued::release;
  return o;
}

class benchmark {
 public:
  benchmark(bench_place const& where, measure_options const& o, console const& to, interruption const& stop)
      : where_{where}, options_{o}, to_{to}, stop_{stop} {
    // JSON, as most events are: a text of this length.
    payload_ = '"' + std::string(std::max<std::size_t>(o.payload, 2) - 2, 'x') + '"';
  }

  measurements run() {
    found_.product = where_.product();
    for (auto const step : {&benchmark::round_trips, &benchmark::one_connection, &benchmark::several_connections,
                            &benchmark::cold_path, &benchmark::hot_path}) {
      if (!stop_.came()) (this->*step)();
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] turn part(std::string const& title, double share) const {
    return {to_, stop_, title, std::chrono::duration_cast<std::chrono::nanoseconds>(options_.time * share)};
  }

  void round_trips() {
    auto t = part("round trips", 0.08);
    auto const session = where_.connect();
    session->ask();  // the first one is not like the others
    t.begin();
    while (t.goes_on() && found_.round_trip.size() < most_samples) {
      auto const from = steady::now();
      session->ask();
      found_.round_trip.add(steady::now() - from);
      t.show();
    }
  }

  void one_connection() {
    auto t = part("writes on one connection", 0.25);
    auto const store = where_.open("writes");
    look_at_settings(*store);
    auto const box = writing_node(store);
    auto const session = where_.connect();
    auto const writer = box.writer();
    session->write(writer, payload_);
    t.begin();
    auto const from = steady::now();
    writer_loop loop{*session, writer, payload_};
    loop.run(t, [&] { t.show(); });
    found_.one = {loop.taken.size(), seconds_since(from)};
    found_.write_one = std::move(loop.taken);
    found_.conflicts += loop.conflicts;
  }

  void several_connections() {
    auto t = part("writes on " + std::to_string(options_.connections) + " connections", 0.25);
    auto const box = writing_node(where_.open("writes"));
    auto const writer = box.writer();
    std::vector<std::unique_ptr<bench_session>> sessions;
    std::vector<writer_loop> loops;
    for (std::size_t i = 0; i < options_.connections && !stop_.came(); ++i) {
      sessions.push_back(where_.connect());
      sessions.back()->write(writer, payload_);
      loops.push_back({*sessions.back(), writer, payload_});
    }
    std::atomic<std::size_t> running = loops.size();
    std::exception_ptr problem;
    std::mutex mutex;
    t.begin();
    auto const from = steady::now();
    {
      std::vector<std::jthread> threads;
      threads.reserve(loops.size());
      for (auto& loop : loops) {
        threads.emplace_back([&] {
          try {
            loop.run(t, [] {});
          } catch (...) {
            std::lock_guard const lock{mutex};
            problem = std::current_exception();
          }
          --running;
        });
      }
      while (running > 0) {
        t.show();
        std::this_thread::sleep_for(10ms);
      }
    }
    found_.several.seconds = seconds_since(from);
    if (problem) std::rethrow_exception(problem);
    for (auto const& loop : loops) {
      found_.write_several.add(loop.taken);
      found_.conflicts += loop.conflicts;
    }
    found_.several.count = found_.write_several.size();
  }

  // Fills a table as a program does that only writes; then a node delivers all of it.
  void cold_path() {
    auto const written = fill("cold", 0.09);
    if (stop_.came()) return;
    auto t = part("delivery of " + number_text(written) + " events from the table", 0.13);
    std::atomic<std::uint64_t> delivered = 0;
    auto o = delivering(where_, "cold");
    o.listeners.on_any([&](outbox::delivery const&) { ++delivered; });
    auto box = outbox::multi_node(std::move(o));
    t.begin();
    auto const from = steady::now();
    box.start();
    while (t.goes_on() && delivered < written) {
      t.show();
      std::this_thread::sleep_for(1ms);
    }
    found_.cold = {delivered, seconds_since(from)};
    box.stop();
  }

  std::uint64_t fill(std::string const& table, double share) {
    auto t = part("writes of events to deliver", share);
    auto const box = writing_node(where_.open(table));
    auto const session = where_.connect();
    auto const writer = box.writer();
    std::uint64_t written = 0;
    t.begin();
    do {
      std::vector<outbox::event> events;
      for (std::size_t i = 0; i < fill_batch; ++i) events.push_back(outbox::event::json("outbox.bench", payload_));
      session->write_all(writer, events);
      written += events.size();
      t.show();
    } while (t.goes_on() && written < most_samples);
    return written;
  }

  // Two hundred a second: each event finds a node that waits.
  void hot_path() {
    auto t = part("delivery right after the commit", 0.20);
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t arrived = 0, late = 0;
    steady::time_point at;
    auto o = delivering(where_, "hot");
    o.listeners.on_any([&](outbox::delivery const& d) {
      auto const now = steady::now();
      std::lock_guard const lock{mutex};
      at = now;
      ++arrived;
      if (d.path == outbox::path::cold) ++late;
      changed.notify_one();
    });
    auto box = outbox::multi_node(std::move(o));
    box.start();
    auto const session = where_.connect();
    auto const writer = box.writer();
    std::uint64_t written = 0;
    auto const deliver = [&] {
      session->write(writer, payload_);
      auto const committed = steady::now();
      ++written;
      std::unique_lock lock{mutex};
      while (!changed.wait_for(lock, 100ms, [&] { return arrived >= written; })) {
        if (stop_.came()) return std::chrono::nanoseconds{-1};
        if (steady::now() - committed > 30s) {
          throw outbox::error{outbox::errc::unavailable, "an event was not delivered within 30 s"};
        }
      }
      return std::max<std::chrono::nanoseconds>(0ns, at - committed);
    };
    static_cast<void>(deliver());
    late = 0;
    t.begin();
    for (auto next = steady::now(); t.goes_on() && found_.hot.size() < most_samples; next += 5ms) {
      std::this_thread::sleep_until(next);
      if (auto const took = deliver(); took >= 0ns) found_.hot.add(took);
      t.show();
    }
    box.stop();
    found_.hot_late = late;
  }

  void look_at_settings(outbox::store& s) {
    if (!s.capabilities().findings) return;
    for (auto const& f : s.backend().findings()) {
      bool const matters =
          f.level == outbox::spi::finding_level::warning || f.level == outbox::spi::finding_level::problem;
      if (matters && f.code != "superuser") found_.notes.push_back(f.text);  // who measures has nothing to do with it
    }
  }

  bench_place const& where_;
  measure_options const& options_;
  console const& to_;
  interruption const& stop_;
  std::string payload_;
  measurements found_;
};

}  // namespace

measurements measure(bench_place const& where, measure_options const& o, console const& to, interruption const& stop) {
  return benchmark{where, o, to, stop}.run();
}

}  // namespace outbox_tool
