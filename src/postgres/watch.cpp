#include "postgres/watch.hpp"

#include <algorithm>
#include <outbox/spi/postgres_adapter.hpp>
#include <utility>

namespace outbox::inline v0::postgres {

watch* watch::of(PGconn* c) {
  if (auto* const known = static_cast<watch*>(PQinstanceData(c, &watch::on_event))) return known;
  auto made = std::make_unique<watch>();
  if (PQregisterEventProc(c, &watch::on_event, "outbox", nullptr) == 0) return nullptr;
  if (PQsetInstanceData(c, &watch::on_event, made.get()) == 0) return nullptr;
  return made.release();  // until the connection is closed
}

void watch::enlist(std::shared_ptr<transaction_observer> observer) {
  if (writes_.empty()) suspect_ = false;  // what happened before the first write does not touch it
  writes_.enlist(std::move(observer));
}

watch::reach const* watch::find(std::string_view table_id) const noexcept {
  auto const r = std::ranges::find(reached_, table_id, &reach::table_id);
  return r == reached_.end() ? nullptr : &*r;
}

// libpq calls this on the thread that uses the connection. Nothing here throws or uses the connection. But an observer
// may call a hook of the application that does: then this is entered again while `end()` still tells the others.
int watch::on_event(PGEventId id, void* info, void* /*pass_through*/) noexcept {
  if (id == PGEVT_RESULTCREATE) {
    auto const& e = *static_cast<PGEventResultCreate const*>(info);
    if (auto* const self = static_cast<watch*>(PQinstanceData(e.conn, &watch::on_event))) self->on_result(e.result);
  } else if (id == PGEVT_CONNRESET) {
    auto const& e = *static_cast<PGEventConnReset const*>(info);
    if (auto* const self = static_cast<watch*>(PQinstanceData(e.conn, &watch::on_event))) {
      self->note_setback();
      self->open_ = self->whole_ = false;
      self->reached_.clear();  // it may be another server now
      self->end_in_doubt();
    }
  } else if (id == PGEVT_CONNDESTROY) {
    auto const& e = *static_cast<PGEventConnDestroy const*>(info);
    std::unique_ptr<watch> const self{static_cast<watch*>(PQinstanceData(e.conn, &watch::on_event))};
    if (self) self->end_in_doubt();
  }
  return 1;
}

void watch::on_result(PGresult const* r) noexcept {
  switch (PQresultStatus(r)) {
    case PGRES_COMMAND_OK: return on_tag(PQcmdStatus(const_cast<PGresult*>(r)));
    case PGRES_FATAL_ERROR:
    case PGRES_BAD_RESPONSE:
    case PGRES_PIPELINE_ABORTED: return note_setback();
    default: return;
  }
}

// ROLLBACK TO has the tag ROLLBACK too, and the transaction goes on after it: only a transaction without savepoints has
// ended for certain. BEGIN within a transaction is only a warning, so an unexpected one proves nothing.
void watch::on_tag(std::string_view tag) noexcept {
  if (tag == "COMMIT") {
    open_ = false;
    at_commit_ = now_;
    ++now_.commits;
    ++now_.ends;
    end(suspect_ ? &spi::enlisted::committed_in_part : &spi::enlisted::committed);
  } else if (tag == "ROLLBACK") {
    note_setback();
    if (savepoints()) return;
    open_ = false;
    ++now_.ends;
    end(&spi::enlisted::rolled_back);
  } else if (tag == "BEGIN" || tag == "START TRANSACTION") {
    whole_ = !std::exchange(open_, true);
    if (!whole_) note_setback();
    end_in_doubt();  // of an earlier transaction, whose end was not seen
  } else if (tag == "SAVEPOINT") {
    savepoints_ = true;
  } else if (tag == "PREPARE TRANSACTION") {
    note_setback();
    open_ = false;
    ++now_.commits;
    ++now_.ends;
    end_in_doubt();
  }
}

void watch::idle() noexcept {
  open_ = whole_ = false;
  end_in_doubt();
}

// Ready for the next transaction before the observers are told: one of them may begin it.
void watch::end(void (spi::enlisted::*how)() noexcept) noexcept {
  savepoints_ = false;
  suspect_ = false;
  (writes_.*how)();
}

bool watch_transaction(pg_conn* connection, std::shared_ptr<transaction_observer> observer) {
  auto* const w = watch::of(connection);
  if (w == nullptr) return false;
  w->enlist(std::move(observer));
  return true;
}

}  // namespace outbox::inline v0::postgres
