// An event that the node answers for, and the transaction that it may come from.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <outbox/delivery.hpp>
#include <outbox/result.hpp>
#include <outbox/spi/store.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "core/listeners/routes.hpp"

namespace outbox::inline v0::core {

/// Where a ticket is. It moves from left to right; only a settlement that fails goes back from settling to finished.
/// `waiting` is for tickets of a chain that others stand before.
enum class stage { registered, waiting, queued, running, finished, settling, gone };

struct chain;
struct ticket;
using ticket_ptr = std::shared_ptr<ticket>;
using ticket_list = std::list<ticket_ptr>;

/// The call of a ticket's listener, from `running` on. A call outlives the stage if it times out.
struct listener_call {
  /// none ─▶ on_worker ─▶ none (the function returned a result) or waiting (it has a completion) ─▶ answered (the
  /// completion was called, and the result waits for a worker). A completion that was called before the function
  /// returned leads from on_worker to answered.
  enum class phase { none, on_worker, waiting, answered };

  core::listener_call::phase phase = phase::none;
  bool leads = false;       ///< It stands for its worker. The other events of a batch do not.
  bool counted = false;     ///< It counts against the limit of its route. Only between begin and end of a call.
  bool timed_out = false;   ///< It outlived its limit, so its result will be ignored. The ticket is finished or gone.
  bool refused = false;     ///< It is answered, and not with done: nothing behind it in its chain may begin.
  bool stop_asked = false;  ///< `stop` was requested, or will be when the lock is released.
  steady_time began{};      ///< When a worker took it.
  std::stop_source stop{std::nostopstate};
};

/// What the node knows about its ownership of the row.
enum class hold {
  sure,      ///< Until `lease_end`.
  unproven,  ///< The dispatch lock was lost, and its new holder may have ended the lease. A renewal will tell.
  lost,      ///< Another node owns the row. The listener still runs, so the ticket stays until it returns.
};

/// How a settlement goes to the store.
struct sending {
  /// A refused batch goes one by one, because one bad row must not hold back its neighbours. A row that is refused
  /// alone goes with a fixed text instead of its own.
  enum class company { batch, alone, alone_with_fixed_text };

  core::sending::company company = company::batch;
  bool unanswered = false;  ///< It was sent before and the reply was not seen, so it may have taken effect.
};

/// Only the engine changes a ticket, under the lock.
struct ticket {
  ticket(outbox::v0::event e, spi::row_handle h, core::route const* r, outbox::v0::path p)
      : event{std::move(e)}, handle{std::move(h)}, route{r}, path{p}, bytes{event.size_bytes()} {}

  /// What its delivery is told: an earlier one may have taken effect.
  [[nodiscard]] bool maybe_duplicate() const noexcept { return crashes > 0 || attempts > 0 || tried; }

  outbox::v0::event event;
  spi::row_handle handle;
  core::route const* route;  ///< Null if no listener serves it.
  outbox::v0::path path;     ///< Which slots it takes.
  std::size_t bytes;         ///< Of the event, against `queue.bytes`.
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;
  bool tried = false;       ///< An earlier try ended without success.
  bool unreadable = false;  ///< The row could not be read. It becomes DEAD without a call.
  std::string progress{};   ///< What the row remembers, or what the running call has reported since.

  core::stage stage = stage::registered;
  core::hold hold = hold::sure;
  bool elder = false;       ///< Registered or running since before a suspect was found.
  steady_time lease_end{};  ///< By this node's clock, so never later than by the store's.
  steady_time taken{};      ///< When the node took it over: at its commit, or with the reply of its claim.
  steady_time ended = steady_time::max();  ///< When the result of its listener came, or a timeout took its place.
  steady_time limit{};                     ///< Queued: released after this. Running: failed after this. `max()`: never.
  spi::settlement settlement{};            ///< From `finished` on.
  listener_call call{};                    ///< From `running` on.
  core::sending sending{};                 ///< From `finished` on.
  ticket_list::iterator place{};           ///< In the list of its stage.

  // In the order of its key: only a keyed node uses these.
  std::shared_ptr<core::chain> chain{};  ///< Null: it is in no order.
  std::int64_t seq = 0;                  ///< The number of its row. 0: not known yet.
  std::string before{};                  ///< The id of the row before it, until it is in line. Births only.
  ticket* ahead = nullptr;               ///< The one before it in its chain.
  ticket* behind = nullptr;              ///< The one behind it in its chain.
  enum class placing { not_asked, asked, told } placing = placing::told;  ///< Whether its place is known. Births only.
  bool in_line = false;                                                   ///< In `chain::line`, else perhaps loose.
  bool repeat = false;  ///< One before it was not delivered: if this one was, it is put back and delivered again.
};

/// A token that may own rows without the node knowing (decision 008). It is released at once, and again at each renewal
/// until `until`, after which no row can carry it.
struct doubt {
  owner_token token;
  steady_time until{};
  bool released_once = false;
};

/// The owned events of one `write_all`, from before the INSERT until the transaction ends.
struct birth {
  owner_token token;
  std::vector<ticket_ptr> tickets;
  steady_time began{};
  bool open = true;  ///< The engine has not heard of its end.
  std::list<std::shared_ptr<birth>>::iterator place{};
  std::list<doubt> spare;  ///< One entry, made before COMMIT so that nothing is allocated after it.

  // Of a keyed node, if one of the tickets has a key.
  std::shared_ptr<spi::insert_receipt> receipt{};  ///< Where the rows of the write stand.
  std::vector<std::size_t> rows{};                 ///< One per ticket: its row in the receipt.
};

/// What a worker does next: one event, or several for one listener that takes them together.
struct assignment {
  ticket_ptr first;
  std::vector<ticket_ptr> rest;

  explicit operator bool() const noexcept { return first != nullptr; }
};

/// The result of a listener's call.
struct call_result {
  result answer = failed{};
  std::optional<std::string> progress{};  ///< Nothing: the progress of the row is unchanged.
};

}  // namespace outbox::inline v0::core
