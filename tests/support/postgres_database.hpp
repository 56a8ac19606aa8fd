// A schema of its own on the shared server, gone when the test is.
#pragma once

#include <libpq-fe.h>
#include <unistd.h>

#include <atomic>
#include <outbox/postgres.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/postgres_server.hpp"

namespace outbox {

class postgres_database {
 public:
  /// `database` is made if it is not there.
  explicit postgres_database(std::string const& database = "postgres",
                             postgres_server& server = postgres_server::shared())
      : connection_{server.connection(database_of(server, database))}, admin_{connection_} {
    static std::atomic<int> next = 0;
    schema_ = "t" + std::to_string(::getpid()) + "_" + std::to_string(++next);
    admin_.execute("CREATE SCHEMA " + schema_);
  }
  postgres_database(postgres_database const&) = delete;
  postgres_database& operator=(postgres_database const&) = delete;
  ~postgres_database() {
    try {
      admin_.execute("DROP SCHEMA IF EXISTS " + schema_ + " CASCADE");
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): the server may be gone on purpose
    }
  }

  [[nodiscard]] std::string const& connection() const noexcept { return connection_; }
  [[nodiscard]] std::string const& schema() const noexcept { return schema_; }
  [[nodiscard]] std::string table(std::string const& name = "outbox_event") const { return schema_ + "." + name; }
  [[nodiscard]] postgres::options options() const {
    postgres::options o;
    o.schema = schema_;
    o.log = nullptr;
    return o;
  }
  [[nodiscard]] std::shared_ptr<store> open() const { return postgres::open(connection_, options()); }

  template <class... Args>
  void execute(std::string const& sql, Args const&... args) {
    admin_.execute(sql, args...);
  }

  /// After the server was gone.
  void reconnect() { PQreset(admin_.handle()); }

  /// Returns the only column of the first row as text; empty for NULL.
  template <class... Args>
  std::string ask(std::string const& sql, Args const&... args) {
    return lines(sql, args...).front();
  }

  /// Returns the only column of all rows, which must be one at least.
  template <class... Args>
  std::vector<std::string> lines(std::string const& sql, Args const&... args) {
    std::vector<std::string> all;
    for (auto& text : admin_.query<std::optional<std::string>>(sql, args...)) {
      all.push_back(std::move(text).value_or(""));
    }
    if (all.empty()) throw std::runtime_error{sql + ": no rows"};
    return all;
  }

 private:
  static std::string database_of(postgres_server& server, std::string const& name) {
    if (name == "postgres") return name;
    postgres::connection c{server.connection()};
    try {
      c.execute("CREATE DATABASE " + name);
    } catch (error const& e) {  // another case was first
      if (e.sqlstate() != "42P04" && e.sqlstate() != "23505") throw;
    }
    return name;
  }

  std::string connection_;
  postgres::connection admin_;
  std::string schema_;
};

}  // namespace outbox
