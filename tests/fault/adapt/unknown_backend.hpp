// A backend of SOCI that has a name and nothing else.
#pragma once

#include <soci/soci.h>

#include <string>
#include <utility>

namespace outbox {

class unknown_backend final : public soci::backend_factory {
 public:
  explicit unknown_backend(std::string name) : name_{std::move(name)} {}
  soci::details::session_backend* make_session(soci::connection_parameters const& /*to*/) const override {
    return new session{name_};  // SOCI deletes it
  }

 private:
  struct session final : soci::details::session_backend {
    explicit session(std::string n) : name{std::move(n)} {}
    bool is_connected() override { return true; }
    void begin() override {}
    void commit() override {}
    void rollback() override {}
    std::string get_dummy_from_table() const override { return {}; }
    std::string get_backend_name() const override { return name; }
    soci::details::statement_backend* make_statement_backend() override { return nullptr; }
    soci::details::rowid_backend* make_rowid_backend() override { return nullptr; }
    soci::details::blob_backend* make_blob_backend() override { return nullptr; }
    std::string name;
  };

  std::string name_;
};

}  // namespace outbox
