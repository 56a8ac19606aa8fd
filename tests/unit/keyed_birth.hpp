// A keyed node whose events are born with an owner, and transactions whose ends it hears of when a test says so.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "unit/keyed_stepper.hpp"

namespace outbox::core {

/// A transaction whose observers hear of its end when the test says so: threads run their hooks in any order.
class open_transaction {
 public:
  explicit open_transaction(outbox::store& s) : tx_{s} {}

  transaction_ref ref() { return transaction_ref{this, operations}; }
  void commit() { tx_.commit(); }
  void rollback() { tx_.rollback(); }
  void hear() {
    for (auto const& o : observers_) o->committed();
  }
  void hear_of_doubt() {
    for (auto const& o : observers_) o->in_doubt();
  }
  void hear_of_rollback() {
    for (auto const& o : observers_) o->rolled_back();
  }
  /// A savepoint took this event of the first write back.
  void lose(std::size_t i) { observers_.at(0)->absent(i); }

 private:
  static open_transaction& of(void* t) { return *static_cast<open_transaction*>(t); }
  static bool active(void const* t) noexcept { return static_cast<open_transaction const*>(t)->tx_.active(); }
  static bool enlist(void* t, std::shared_ptr<transaction_observer> o) {
    of(t).observers_.push_back(std::move(o));
    return true;
  }
  static void run(void* t, void (*use)(void*, void*), void* what) { use(what, &of(t).tx_); }
  static transaction_operations const operations;

  memory::transaction tx_;
  std::vector<std::shared_ptr<transaction_observer>> observers_;
};

inline transaction_operations const open_transaction::operations{
    .kind = "memory", .active = &active, .enlist = &enlist, .run = &run};

/// Writes through the node, and through transactions of other programs.
class keyed_birth_fixture : public keyed_fixture {
 protected:
  void write(transaction_ref tx, std::initializer_list<char const*> ids, std::string const& key = "k",
             std::string const& type = "t") {
    std::vector<event> all;
    for (auto const* id : ids) all.push_back(event::json(type, "1", {.id = id, .ordering_key = key}));
    n.core->write(tx, all);
  }
  void born(std::initializer_list<char const*> ids, std::string const& key = "k", std::string const& type = "t") {
    memory::transaction tx{*db.store};
    write(join(tx), ids, key, type);
    tx.commit();
  }
  /// Written and committed; its hook is not heard.
  std::unique_ptr<open_transaction> committed(std::initializer_list<char const*> ids, std::string const& key = "k") {
    auto tx = std::make_unique<open_transaction>(*db.store);
    write(tx->ref(), ids, key);
    tx->commit();
    return tx;
  }
  [[nodiscard]] bool ours(std::string const& id) { return db.row(id).locked_by.starts_with("n/"); }
};

}  // namespace outbox::core
