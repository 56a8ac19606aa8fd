#include "mysql/caller_connection.hpp"

namespace outbox::inline v0::mysql {
namespace {

// Keeps the client library from making a connection again by itself: the transaction would be lost on the way.
class without_reconnect {
 public:
  explicit without_reconnect(MYSQL* c) noexcept : c_{c} {
    mysql_get_optionv(c_, MYSQL_OPT_RECONNECT, &before_);
    set(0);
  }
  without_reconnect(without_reconnect const&) = delete;
  without_reconnect& operator=(without_reconnect const&) = delete;
  ~without_reconnect() { set(before_); }

 private:
  void set(my_bool on) noexcept { mysql_optionsv(c_, MYSQL_OPT_RECONNECT, &on); }

  MYSQL* c_;
  my_bool before_ = 0;
};

}  // namespace

// Outside a transaction the event would be committed alone. An error of the application's last statement may have
// rolled back its transaction.
void caller_connection::insert(sql_text const& statement) {
  auto* const c = through_->raw();
  through_->learn_status();
  if (!in_transaction()) {
    throw error{errc::no_transaction, "the server has rolled back the transaction, because of an error before"};
  }
  without_reconnect const guard{c};
  try {
    through_->send(statement);
  } catch (error const&) {
    if (mysql_errno(c) != code::out_of_range) throw;  // the guard of the statement
    throw error{errc::no_transaction, "the transaction was over before the event was written; nothing was written"};
  }
  if (in_transaction()) return;
  throw error{errc::commit_in_doubt,
              "the transaction was over before the event was written, and nothing told so: the event is committed by "
              "itself"};
}

}  // namespace outbox::inline v0::mysql
