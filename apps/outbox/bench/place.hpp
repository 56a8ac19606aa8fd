// Where `outbox bench` writes: a schema, a database, an outbox or a file of its own, which it makes and drops.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/event.hpp>
#include <outbox/store.hpp>
#include <outbox/writer.hpp>
#include <span>
#include <string>

#include "cli/store_url.hpp"

namespace outbox_tool {

/// A connection as an application has it. Use from one thread at a time. All functions throw `outbox::error`.
class bench_session {
 public:
  bench_session() = default;
  bench_session(bench_session const&) = delete;
  bench_session& operator=(bench_session const&) = delete;
  virtual ~bench_session() = default;

  /// Runs the smallest statement.
  virtual void ask() = 0;

  /// Writes one event in a transaction of its own.
  virtual void write(outbox::writer const& w, std::string const& payload) = 0;

  /// Writes these events in one transaction.
  virtual void write_all(outbox::writer const& w, std::span<outbox::event const> events) = 0;
};

/// The place. Nothing outside it is touched. Use from one thread at a time.
class bench_place {
 public:
  bench_place() = default;
  bench_place(bench_place const&) = delete;
  bench_place& operator=(bench_place const&) = delete;
  virtual ~bench_place() = default;

  /// As in "the schema outbox_bench_1f2e".
  [[nodiscard]] virtual std::string name() const = 0;

  /// The statement, or the command of a shell, that drops the place.
  [[nodiscard]] virtual std::string drop_text() const = 0;

  /// What the user needs to make the place.
  [[nodiscard]] virtual std::string rights() const = 0;

  /// Throws `outbox::error` or `std::system_error` if it cannot be made, or if there is one of that name.
  virtual void create() = 0;

  /// Throws `outbox::error` or `std::system_error`. No session and no store may be open. Does nothing if `create()` has
  /// not begun to make it.
  virtual void drop() = 0;

  /// The product and its version.
  [[nodiscard]] virtual std::string product() const = 0;

  /// The round trips of a transaction that writes one event; 0 if there is no server.
  [[nodiscard]] virtual int round_trips() const noexcept = 0;

  [[nodiscard]] virtual std::unique_ptr<bench_session> connect() const = 0;

  /// Opens the outbox of this name in the place, and makes its tables.
  [[nodiscard]] virtual std::shared_ptr<outbox::store> open(std::string const& table) const = 0;
};

/// Chooses a place in the database of the URL. Makes nothing yet. `timeout` is how long the database may take for an
/// answer, unless the URL says so. Throws `tool_error` if the tool was built without that database.
[[nodiscard]] std::unique_ptr<bench_place> choose_place(store_url const& url, std::chrono::milliseconds timeout);

}  // namespace outbox_tool
