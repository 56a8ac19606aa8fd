// Nodes and sinks from a file: TOML and environment variables instead of code.
/// \file
///
///     auto box = outbox::node_from_config("relay.toml");
///     box.start();
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <outbox/detail/config_export.hpp>
#include <outbox/error.hpp>
#include <outbox/node.hpp>
#include <outbox/open_store.hpp>
#include <outbox/sink.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

namespace configuration {
struct table_data;
}

/// The settings of a configuration that are wrong: all of them, not only the first. `what()` has a line for each:
///
///     relay.toml:7:3: unknown key 'poll.evry': did you mean 'every'?
class OUTBOX_CONFIG_EXPORT config_error : public error {
 public:
  explicit config_error(std::vector<std::string> problems);
  ~config_error() override;
  [[nodiscard]] std::vector<std::string> const& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// A listener of the application that a route of the configuration names.
using named_listener = std::function<void(delivery const&, completion)>;

/// Where a configuration comes from.
struct config_source {
  /// The path of a TOML file. Empty: the environment alone.
  std::string file{};

  /// The text of the file, for programs that have read it already; `file` is then only its name in errors.
  std::optional<std::string> text{};

  /// The variables that are added to the file, as {"OUTBOX_STORE__URL", "sqlite:shop.db"}. Default: those of the
  /// process that begin with OUTBOX_. A key that is in both has the value of the variable.
  std::optional<std::map<std::string, std::string>> environment{};
};

/// What an application adds to its configuration.
struct config_extras {
  std::map<std::string, named_listener> listeners{};         ///< By the name that `routes.listener` gives.
  log_function log = log_to_stderr;                          ///< Where the lines of nodes, stores and sinks go.
  std::shared_ptr<outbox::v0::metrics> metrics{};            ///< Where the counters of all nodes go. Default: nowhere.
  std::shared_ptr<writer_hook> hook{};                       ///< The hook of all nodes. Default: none.
  std::vector<std::shared_ptr<interceptor>> interceptors{};  ///< Those of all nodes. Default: none.

  /// Where the figures of the node of one table go, for a configuration with several; then `metrics` is not used.
  /// Called once for each table when the configuration is opened, with its label; a table without a label has the name
  /// that its store gives it. No name is given twice.
  std::function<std::shared_ptr<outbox::v0::metrics>(std::string const& table)> metrics_for{};
};

/// How the lines of a log look.
enum class log_form {
  logfmt,   ///< `time=… level=info message="…" node=orders`, on standard error.
  json,     ///< A JSON object per line, on standard error.
  journal,  ///< Entries with fields, by `log_to_journal`.
};

/// How a program that runs a configuration behaves; `outbox relay` is one.
struct relay_settings {
  /// Where readiness and liveness are served: "address:port". Empty: nowhere. Default "127.0.0.1:9464".
  std::string http = "127.0.0.1:9464";

  log_form form = log_form::logfmt;   ///< Default `logfmt`.
  log_level least = log_level::info;  ///< Less important lines are left out. Default info.
};

/// A configuration that was read and checked. Nothing has been opened yet.
class OUTBOX_CONFIG_EXPORT config {
 public:
  /// Throws `config_error` with everything that is wrong, without any secret in it.
  [[nodiscard]] static config read(config_source const& from, config_extras const& with = {});

  config(config&&) noexcept;
  config& operator=(config&&) noexcept;
  ~config();

  [[nodiscard]] relay_settings const& relay() const noexcept;

  /// What it says, one setting per line, in a stable order and without secrets: for people.
  [[nodiscard]] std::string summary() const;

  /// Where the first `events` waiting events of each table would go: for people. Opens the stores, changes nothing.
  /// Throws the error of a store.
  [[nodiscard]] std::string preview(std::size_t events) const;

  /// The names of its tables in the configuration, in its order. The only table may have an empty name.
  [[nodiscard]] std::vector<std::string> tables() const;

  /// Where a table is, without a password. Throws `error` (invalid_option) if there is no such table.
  [[nodiscard]] std::string url_of(std::string_view table) const;

  /// The same with its password: only for connections.
  [[nodiscard]] std::string secret_url_of(std::string_view table) const;

  /// True if the table has a layout: another program made it. Throws `error` (invalid_option) if there is no such
  /// table.
  [[nodiscard]] bool has_layout(std::string_view table) const;

  /// Opens the store of one table: for tools. `o.layout` is that of the configuration. Throws `error` (invalid_option)
  /// if there is no such table, or the error of the store.
  [[nodiscard]] std::shared_ptr<store> open_table(std::string_view table, open_options o) const;

  /// Brings the table to this library's schema, or tells its schema: as the functions of <outbox/open_store.hpp>. A
  /// table whose mode is `keyed` is prepared for it, as is any table with `keyed`. Throw `error` (invalid_option) also
  /// if it is a table of another shape.
  migration migrate_table(std::string_view table, bool keyed = false) const;
  [[nodiscard]] schema_state schema_of_table(std::string_view table) const;

  /// The nodes of all tables, not started, and the sinks of their routes.
  struct opened {
    std::vector<std::pair<std::string, node>> nodes{};  ///< With the names of their tables in the configuration.
    std::vector<std::shared_ptr<sink>> sinks{};         ///< All that the configuration names.

    /// The stores of the nodes, in the same order, with the names that `metrics_for` was called with.
    std::vector<std::pair<std::string, std::shared_ptr<store>>> stores{};
  };

  /// Opens the stores and sinks and makes the nodes. Throws `error`: that of a store, or of an option.
  [[nodiscard]] opened open(config_extras with = {}) const;

 private:
  struct data;
  [[nodiscard]] configuration::table_data const& table(std::string_view label) const;
  explicit config(std::unique_ptr<data> d) noexcept;
  std::unique_ptr<data> data_;
};

/// Reads a configuration with one table and makes its node. Throws `config_error`, or the error of the store.
[[nodiscard]] OUTBOX_CONFIG_EXPORT node node_from_config(std::string const& file, config_extras with = {});

/// A URL of a store without its password: for people.
[[nodiscard]] OUTBOX_CONFIG_EXPORT std::string shown_url(std::string_view url);

/// One key of a configuration, for the reference and for completion.
struct config_key {
  std::string name;      ///< As in "poll.every".
  std::string type;      ///< As in "duration".
  std::string standard;  ///< The default, as text; empty if there is none.
};

/// Every key, in the order of the reference.
[[nodiscard]] OUTBOX_CONFIG_EXPORT std::vector<config_key> all_config_keys();

}  // namespace outbox::inline v0
