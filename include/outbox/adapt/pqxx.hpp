// Joins a transaction of libpqxx: `writer.write(tx, …)` accepts a pqxx::work.
//
// Header-only: include it and link libpqxx as usual. Statements run through pqxx. The tests use version 6.4 (Debian
// 12); version switches cover 7 and 8.
#pragma once

#include <memory>
#include <outbox/error.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/postgres_adapter.hpp>
#include <pqxx/largeobject>
#include <pqxx/pqxx>
#include <string>
#include <type_traits>
#include <vector>

namespace outbox::inline v0::adapt {

/// The libpq connection below a pqxx transaction. No version has a function for it, but each shows it to the classes
/// for large objects.
struct pqxx_handle : pqxx::largeobject {
  static pg_conn* of(pqxx::dbtransaction const& tx) noexcept { return raw_connection(tx); }
};

/// One row of a pqxx result, in text form.
class pqxx_row final : public sql::row {
 public:
  explicit pqxx_row(pqxx::row const& r) : row_{r} {}
  bool null(int c) const override { return field(c).is_null(); }
  std::int64_t integer(int c) const override {
    auto const t = text(c);
    if (t == "t") return 1;
    return t.empty() || t == "f" ? 0 : std::stoll(std::string{t});
  }
  std::string_view text(int c) const override {
    return null(c) ? "" : std::string_view{field(c).c_str(), field(c).size()};
  }
  std::optional<instant> time(int /*column*/) const override { return std::nullopt; }

 private:
  [[nodiscard]] pqxx::field field(int c) const { return row_[static_cast<pqxx::row::size_type>(c)]; }
  pqxx::row row_;
};

/// Runs the statements of the store through the application's transaction.
class pqxx_connection final : public postgres::caller_connection {
 public:
  explicit pqxx_connection(pqxx::dbtransaction& tx) : tx_{tx} {}

  pg_conn* raw() const noexcept override { return pqxx_handle::of(tx_); }
  bool in_transaction() const noexcept override { return true; }

  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override {
    try {
      auto const result = run(std::string{sql}, values);
      for (auto const& r : result) {
        if (!on_row || !on_row(pqxx_row{r})) break;
      }
      return static_cast<std::int64_t>(result.affected_rows());
    } catch (pqxx::broken_connection const& e) {
      throw error{errc::unavailable, e.what()};
    } catch (pqxx::serialization_failure const& e) {  // in 6.4 these two are not derived from sql_error
      throw postgres::error_with("40001", e.what());
    } catch (pqxx::deadlock_detected const& e) {
      throw postgres::error_with("40P01", e.what());
    } catch (pqxx::sql_error const& e) {
      throw postgres::error_with(std::string{e.sqlstate()}, e.what());
    } catch (pqxx::failure const& e) {
      throw error{errc::store_failure, e.what()};
    }
  }

 private:
  pqxx::result run(std::string const& sql, std::span<sql::value const> values) {
    std::vector<std::optional<std::string>> texts;
    texts.reserve(values.size());
    for (auto const& v : values) texts.push_back(postgres::text_of(v));
#if PQXX_VERSION_MAJOR >= 7
    pqxx::params parameters;
    for (auto const& t : texts) {
      if (t) {
        parameters.append(*t);
      } else {
        parameters.append();
      }
    }
#if PQXX_VERSION_MAJOR > 7 || PQXX_VERSION_MINOR >= 10
    return tx_.exec(sql, parameters);
#else
    return tx_.exec_params(sql, parameters);
#endif
#else
    std::vector<char const*> pointers;
    pointers.reserve(texts.size());
    for (auto const& t : texts) pointers.push_back(t ? t->c_str() : nullptr);
    return tx_.exec_params(sql, pqxx::prepare::make_dynamic_params(pointers.begin(), pointers.end()));
#endif
  }

  pqxx::dbtransaction& tx_;
};

template <class Tx>
concept pqxx_database_transaction = std::is_base_of_v<pqxx::dbtransaction, Tx>;

}  // namespace outbox::inline v0::adapt

namespace outbox::inline v0 {

/// Joins every pqxx transaction that is one on the server: pqxx::work, a pqxx::transaction of any isolation, also a
/// robusttransaction. Not a nontransaction, which has nothing to join.
///
/// pqxx does not tell how a transaction ends; an event procedure on the libpq connection below does.
template <adapt::pqxx_database_transaction Tx>
struct transaction_traits<Tx> {
  static transaction_ref join(Tx& tx) noexcept {
    static constexpr transaction_operations operations{
        .kind = "postgres",
        .active = [](void const* t) noexcept { return postgres::in_transaction(adapt::pqxx_handle::of(base(t))); },
        .enlist =
            [](void* t, std::shared_ptr<transaction_observer> observer) {
              auto* const raw = adapt::pqxx_handle::of(base(t));
              return raw != nullptr && postgres::watch_transaction(raw, std::move(observer));
            },
        .run =
            [](void* t, void (*use)(void*, void*), void* what) {
              adapt::pqxx_connection c{*static_cast<pqxx::dbtransaction*>(static_cast<Tx*>(t))};
              sql::connection& on = c;
              use(what, &on);
            }};
    return {&tx, operations};
  }

 private:
  static pqxx::dbtransaction const& base(void const* t) noexcept {
    return *static_cast<pqxx::dbtransaction const*>(static_cast<Tx const*>(t));
  }
};

}  // namespace outbox::inline v0
