// Writes, claims, settles and renews row by row: for databases in the same process, where a statement is no round trip.
#pragma once

#include "sql/sql_store.hpp"

namespace outbox::inline v0::sql {

class OUTBOX_SQL_EXPORT row_store : public sql_store {
 public:
  ~row_store() override;

  void insert(transaction_ref tx, std::span<insertion const> rows) override;
  claim_reply claim(claim_request const& request) override;
  std::vector<bool> settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;

 protected:
  row_store(dialect d, row_statements r);

  /// Runs `f` on the caller's connection. Throws `error` (wrong_transaction) if it is not to this database.
  virtual void with_caller(transaction_ref tx, work const& f) = 0;

  [[nodiscard]] row_statements const& row_by_row() const noexcept { return rows_; }

 private:
  struct candidates;
  [[nodiscard]] candidates choose(connection& c, claim_request const& request, claim_reply& reply);
  void take_all(claim_request const& request, candidates& chosen, claim_reply& reply);
  void take(connection& c, claim_request const& request, candidates& chosen);
  void look_ahead(connection& c, claim_request const& request, claim_reply& reply);
  [[nodiscard]] std::int64_t settle_one(connection& c, settlement const& s);

  row_statements rows_;
};

}  // namespace outbox::inline v0::sql
