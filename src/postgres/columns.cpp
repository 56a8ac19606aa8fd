#include "postgres/columns.hpp"

#include <outbox/spi/codecs.hpp>
#include <unordered_map>

#include "core/base/text.hpp"

namespace outbox::inline v0::postgres {
namespace {

// An event type and an aggregate type as one text, to the letter as NOT_PAUSED makes it of a row. The length, counted
// in characters like the server's length(), says where the first one ends: both names may contain any character.
std::string pair_text(std::string const& event_type, std::string const& aggregate_type) {
  return std::to_string(core::utf8_length(event_type).value_or(0)) + ':' + event_type + aggregate_type;
}

}  // namespace

pause_lists::pause_lists(std::vector<route_pause> const& pauses) {
  for (auto const& p : pauses) {
    if (p.aggregate_type.empty()) {
      types_.emplace_back(p.event_type);
    } else {
      texts_.push_back(pair_text(p.event_type, p.aggregate_type));
    }
  }
  pairs_.assign(texts_.begin(), texts_.end());
}

insert_parameters::insert_parameters(sql::stored_event const& e) {
  using due = insert_shape::due;
  using sql::or_null;
  values.reserve(14);
  values.insert(values.end(), {e.id, e.type, e.payload, sql::value{e.created_at}});
  shape.about = e.aggregate_type != global_aggregate || !e.aggregate_id.empty();
  if (shape.about) values.emplace_back(e.aggregate_type);
  if (e.due.at) {
    shape.when = due::at;
    values.emplace_back(*e.due.at);
  } else if (e.due.after.count() > 0) {
    shape.when = due::after;
    values.emplace_back(micros(e.due.after));
  }
  if (shape.about) values.emplace_back(or_null(e.aggregate_id));
  if (e.owned()) {
    shape.owned = true;
    values.insert(values.end(), {e.token, micros(e.lease)});
  }
  if (e.rich()) {
    shape.rich = true;
    values.insert(values.end(), {or_null(e.tenant), or_null(e.headers), or_null(e.ordering_key),
                                 or_null(e.content_type), e.json ? sql::value{} : sql::value{sql::blob{e.bytes}}});
  }
}

insert_columns::insert_columns(std::span<spi::insertion const> rows) {
  for (auto const& i : rows) add(events_.emplace_back(i));
}

void insert_columns::add(sql::stored_event const& e) {
  id_.emplace_back(e.id);
  type_.emplace_back(e.type);
  aggregate_.emplace_back(e.aggregate_type);
  aggregate_id_.emplace_back(e.aggregate_id);
  payload_.emplace_back(e.payload);
  created_.emplace_back(instants_.emplace_back(utc_text(e.created_at)));
  token_.emplace_back(e.token);
  if (e.owned()) lease_ = micros(e.lease);
  at_.emplace_back(e.due.at ? std::string_view{instants_.emplace_back(utc_text(*e.due.at))} : std::string_view{});
  after_.push_back(micros(e.due.after));
  tenant_.emplace_back(e.tenant);
  headers_.emplace_back(e.headers);
  key_.emplace_back(e.ordering_key);
  content_.emplace_back(e.content_type);
  bytes_.emplace_back(e.bytes);
  delayed_ = delayed_ || e.due.at || e.due.after.count() > 0;
  rich_ = rich_ || e.rich();
}

std::vector<parameter> insert_columns::values() const {
  std::vector<parameter> all{
      text_array{id_},      text_array{type_},    text_array{aggregate_}, text_array{aggregate_id_},
      text_array{payload_}, text_array{created_}, text_array{token_},     lease_};
  if (delayed_) all.insert(all.end(), {text_array{at_}, integer_array{after_}});
  if (rich_) {
    all.insert(all.end(),
               {text_array{tenant_}, text_array{headers_}, text_array{key_}, text_array{content_}, blob_array{bytes_}});
  }
  return all;
}

statement candidates(array_statements const& a, spi::claim_request const& request, std::size_t window) {
  pause_lists const paused{request.pauses};
  auto const limit = static_cast<std::int64_t>(window);
  if (request.in_order) return make(a.in_order, {limit, paused.types(), paused.pairs()});
  bool const alone = request.suspects == spi::suspects::take_one;
  std::vector<optional_text> const left{request.leave.begin(), request.leave.end()};
  return make(
      request.keyed ? a.due_in_keys : a.due,
      {limit, micros(request.skip_recent), std::int64_t{request.unowned_only}, paused.types(), paused.pairs(),
       std::int64_t{alone ? request.max_crashes - 1 : 0}, request.floor ? sql::value{*request.floor} : sql::value{},
       text_array{left}, request.reach ? sql::value{micros(*request.reach)} : sql::value{}});
}

namespace {

// The columns from `first` on are a candidate.
spi::claim_filter::candidate candidate_in(sql::row const& r, instant now, int first) {
  using c = candidate_column;
  auto const at = [&](int column) { return first + column; };
  return {.id = r.text(at(c::event_id)),
          .event_type = r.text(at(c::event_type)),
          .aggregate_type = r.text(at(c::aggregate_type)),
          .owned = r.integer(at(c::owned)) != 0,
          .foreign_lock = r.time(at(c::foreign_locked_at)),
          .foreign_owner = r.text(at(c::foreign_owner)),
          .tried = r.integer(at(c::tried)) != 0,
          .crashes = static_cast<std::int32_t>(r.integer(at(c::crashes))),
          .inserted_at = r.time(at(c::inserted_at)).value_or(now),
          .claimable_at = r.time(at(c::claimable_at)).value_or(now),
          .bytes = static_cast<std::size_t>(r.integer(at(c::bytes)))};
}

}  // namespace

void show_candidates(PGresult* result, instant now, bool keyed, sql::row_chooser& choose) {
  choose.begin(now);
  result_rows{result}.show([&](sql::row const& r) {
    using c = candidate_column;
    auto seen = candidate_in(r, now, 0);
    sql::row_chooser::more also{.nothing_earlier = r.integer(c::nothing_earlier) != 0};
    if (keyed) {
      seen.key = r.text(c::key);
      seen.before = r.text(c::before);
      seen.next_blocked = r.integer(c::next_blocked) != 0;
      also.seq = r.integer(c::seq);
      also.before_is_delayed = r.integer(c::before_is_delayed) != 0;
    }
    return choose.see(seen, also);
  });
}

statement runs(array_statements const& a, sql::row_chooser const& choose) {
  std::vector<optional_text> keys;
  std::vector<std::int64_t> seqs;
  for (auto const& h : choose.heads()) {
    keys.emplace_back(h.key);
    seqs.push_back(h.seq);
  }
  return make(a.run, {text_array{keys}, integer_array{seqs}, static_cast<std::int64_t>(choose.longest_run())});
}

void show_runs(PGresult* result, instant now, sql::row_chooser& choose) {
  constexpr int candidate = 1;
  constexpr int locked = candidate + candidate_column::seq + 2;
  result_rows{result}.show([&](sql::row const& r) {
    auto seen = candidate_in(r, now, candidate);
    seen.key = r.text(candidate + candidate_column::key);
    choose.see_behind(static_cast<std::size_t>(r.integer(0)) - 1, seen, {}, r.integer(locked) != 0);
    return true;
  });
}

namespace {

class receipt_answer final : public insert_answer {
 public:
  receipt_answer(std::span<event const* const> events, std::shared_ptr<spi::insert_receipt> receipt, std::size_t at)
      : receipt_{std::move(receipt)}, at_{at}, before_(events.size()) {
    // Rows of one statement do not see each other.
    std::unordered_map<std::string, std::string_view> last;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i]->delayed()) continue;
      auto key = spi::key_of(*events[i]);
      if (key.empty()) continue;
      auto& id = last[std::move(key)];
      before_[i] = id;
      id = events[i]->id();
    }
  }

  // This may be after COMMIT, where nothing may fail. What could not be told is asked later.
  void tell(result_rows const& rows) noexcept override try {
    if (rows.size() != static_cast<int>(before_.size())) return;  // a trigger suppressed some
    std::size_t i = 0;
    rows.show([&](sql::row const& r) {
      auto& told = receipt_->rows[at_ + i];
      told.seq = r.integer(0);
      told.before = before_[i].empty() ? std::string{r.text(1)} : before_[i];
      told.known = r.integer(2) != 0;
      ++i;
      return true;
    });
  } catch (...) {
    forget();
  }
  void forget() noexcept override {
    for (std::size_t i = 0; i < before_.size(); ++i) receipt_->rows[at_ + i].known = false;
  }

 private:
  std::shared_ptr<spi::insert_receipt> receipt_;
  std::size_t at_;
  std::vector<std::string> before_;  ///< The id of the row before it in the same statement, or empty.
};

}  // namespace

std::shared_ptr<insert_answer> answer_for(std::span<event const* const> events,
                                          std::shared_ptr<spi::insert_receipt> receipt, std::size_t at) {
  return std::make_shared<receipt_answer>(events, std::move(receipt), at);
}

std::vector<statement> look_ahead(array_statements const& a, spi::claim_request const& request) {
  pause_lists const paused{request.pauses};
  std::vector<statement> all;
  all.push_back(request.pauses.empty() ? make(a.next_due, {})
                                       : make(a.next_due_beside_pauses, {paused.types(), paused.pairs()}));
  if (request.skip_recent.count() > 0) all.push_back(make(a.next_grown, {micros(request.skip_recent)}));
  return all;
}

// The first answer is the next claimable instant; the second, with `skip_recent`, the first insert that grows old
// enough.
void note_next_due(spi::claim_request const& request, std::span<result_handle const> answers, spi::claim_reply& reply) {
  auto after = milliseconds{0};
  for (auto const& answer : answers) {
    result_rows{answer.get()}.show([&](sql::row const& r) {
      if (auto const at = r.time(0); at && (!reply.next_due || *at + after < *reply.next_due)) {
        reply.next_due = *at + after;
      }
      return false;
    });
    after = request.skip_recent;
  }
}

statement settle_statement(array_statements const& a, sql::settle_group const& g) {
  parameter const id = text_array{g.id};
  parameter const token = text_array{g.token};
  parameter const progress = text_array{g.progress};
  parameter const error = text_array{g.error};
  parameter const delay = integer_array{g.delay};
  parameter const counted = integer_array{g.counted};
  switch (g.outcome) {
    case spi::outcome::delivered:
      if (g.of_one) return make(a.settle_done_of_one, {id, *g.token.front()});
      return make(a.settle_done, {id, token, progress});
    case spi::outcome::retry: return make(a.settle_retry, {id, token, progress, error, delay, counted});
    case spi::outcome::defer: return make(a.settle_defer, {id, token, progress, error, delay});
    case spi::outcome::dead: return make(a.settle_dead, {id, token, progress, error, counted, integer_array{g.leaves}});
    case spi::outcome::release: break;
  }
  return make(a.settle_release, {id, token});
}

}  // namespace outbox::inline v0::postgres
