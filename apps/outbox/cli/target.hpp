// Which table a verb works on: a URL, or a table of a configuration.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <outbox/config.hpp>
#include <outbox/open_store.hpp>
#include <outbox/spi/store.hpp>
#include <string>

namespace CLI {
class App;
}

namespace outbox_tool {

/// What the options of a verb say about its table.
struct target_options {
  std::string db, config, table, timeout = "10s";

  /// Adds --db, --config, --table and --timeout. The first two may come from OUTBOX_DB and OUTBOX_CONFIG.
  void add_to(CLI::App& verb);
};

/// What a verb wants to do with a table.
enum class access { read, change };

/// A table that was named, not yet opened. Its password is never shown.
class target {
 public:
  /// Throws `tool_error` if no table is named, or more than one; `config_error`.
  explicit target(target_options const& o);

  /// The URL without its password.
  [[nodiscard]] std::string const& shown() const noexcept { return shown_; }

  /// Options that name this table on another command line, as in "--db sqlite:shop.db".
  [[nodiscard]] std::string options() const;

  /// The file of the configuration; empty if there is none.
  [[nodiscard]] std::string const& config_file() const noexcept { return options_.config; }

  /// The URL with its password. Only for connections.
  [[nodiscard]] std::string url() const { return config_ ? config_->secret_url_of(options_.table) : options_.db; }

  /// True if another program made the table, and the configuration describes it.
  [[nodiscard]] bool has_layout() const { return config_ && config_->has_layout(options_.table); }

  /// How long the database may take for an answer.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  /// Opens the store; for reading, the database refuses every change and ends a read after the time-out. Never changes
  /// a schema. Throws `tool_error` (exit_schema) that says what to do if the table is not there or has another schema;
  /// otherwise the error of the store.
  [[nodiscard]] std::shared_ptr<outbox::store> open(access a) const;

  [[nodiscard]] outbox::schema_state schema() const;
  /// With `keyed` the table is prepared for keyed nodes, too.
  [[nodiscard]] outbox::migration migrate(bool keyed) const;

 private:
  [[nodiscard]] std::shared_ptr<outbox::store> try_open(access a) const;

  target_options options_;
  std::chrono::milliseconds timeout_{};
  std::optional<outbox::config> config_;
  std::string shown_;
};

}  // namespace outbox_tool
