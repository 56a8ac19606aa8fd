// The plans of claims, settlements and purges: which index they use, and how many rows they read.
#include "mysql/key_statements.hpp"
#include "mysql/rows.hpp"
#include "mysql/statements.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

using mysql::sql_text;

// A table with many rows that a claim must not look at.
class MysqlPlan : public MysqlServer {
 protected:
  static constexpr int done = 20'000, delayed = 5'000, due = 2'000, leased = 300;

  void SetUp() override {
    if (mariadb_connection(caller.handle()) == 0) GTEST_SKIP() << "plans are those of MariaDB";
    store = db.open();
    fill("d", done, "1", "utc_timestamp(6)", "NULL", "NULL", "utc_timestamp(6)");
    fill("l", leased, "0", "utc_timestamp(6)", "concat('o/', i)", "utc_timestamp(6) + INTERVAL 1 MINUTE", "NULL");
    fill("r", due, "2", "utc_timestamp(6) - INTERVAL 1 SECOND", "NULL", "NULL", "NULL");
    fill("n", due, "0", "utc_timestamp(6) - INTERVAL 1 SECOND", "NULL", "NULL", "NULL");
    fill("f", delayed, "0", "utc_timestamp(6) + INTERVAL 1 DAY", "NULL", "NULL", "NULL");
    // As the store's own sessions are.
    caller.execute("SET SESSION in_predicate_conversion_threshold = 0");
    caller.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    nothing = count_reads("DO 0");
  }

  void fill(std::string const& prefix, int rows, std::string const& status, std::string const& at,
            std::string const& owner, std::string const& lease, std::string const& done_at) {
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, status, available_at, created_at, locked_by, lease_until, done_at) "
               "SELECT concat('" +
               prefix + "', i), 't', '1', " + status + ", " + at + ", utc_timestamp(6), " + owner + ", " + lease +
               ", " + done_at + " FROM " + numbers_to(rows));
  }

  // How often the statement asks an engine for a row. What it changes is rolled back.
  std::int64_t count_reads(std::string const& sql) {
    caller.execute("FLUSH STATUS");
    caller.execute("START TRANSACTION");
    caller.execute(sql);
    auto const reads = caller
                           .query<double>(
                               "SELECT sum(variable_value) FROM information_schema.session_status WHERE "
                               "variable_name LIKE 'Handler_read%'")
                           .at(0);
    caller.execute("ROLLBACK");
    return static_cast<std::int64_t>(reads);
  }

  // The plans of a text of one or two statements.
  std::string plan_of(std::string const& sql) {
    auto const second = sql.find("; ");
    auto plan = caller.query<std::string>("EXPLAIN FORMAT=JSON " + sql.substr(0, second)).at(0);
    if (second == std::string::npos) return plan;
    caller.execute(sql.substr(0, second));
    return plan + caller.query<std::string>("EXPLAIN FORMAT=JSON " + sql.substr(second + 2)).at(0);
  }

  // Fails unless the plan uses the index and the text reads at most so many rows.
  void expect(std::string const& name, sql_text const& text, std::string const& index, std::int64_t most) {
    auto const& sql = text.str();
    auto const plan = plan_of(sql);
    EXPECT_THAT(plan, HasSubstr("\"key\": \"" + index + "\"")) << name << ": " << sql;
    EXPECT_LE(count_reads(sql) - nothing, most) << name << ": " << sql << "\n" << plan;
  }
  void expect_no_sort(std::string const& name, sql_text const& statement) {
    EXPECT_THAT(plan_of(statement.str()), Not(HasSubstr("filesort"))) << name << ": " << statement.str();
  }

  template <class Add>
  static sql_text made(Add&& add) {
    sql_text t{{}};
    std::forward<Add>(add)(t);
    return t;
  }
  sql_text look(claim_request const& r) const {
    return made([&](sql_text& t) { mysql::add_look(t, sets, r, 51); });
  }

  sql::layout layout{.table = "outbox_event", .schema = db.database(), .quote = '`'};
  mysql::set_statements sets = mysql::statements_for_sets(layout, done_rows::keep, "utf8mb4_nopad_bin", true);
  sql::dialect shared = mysql::shared_statements(layout, "utf8mb4_nopad_bin");
  std::shared_ptr<outbox::store> store;
  std::int64_t nothing = 0;
};

// What a claim costs depends on nothing else in the table, with statistics and without.
TEST_F(MysqlPlan, ClaimsReadWhatIsDueAndLittleElse) {
  for (bool const analyse : {false, true}) {
    if (analyse) caller.execute("ANALYZE TABLE " + db.table());
    claim_request const plain{.lease = 30s};
    auto floor = plain;
    floor.floor = store->now() - 10min;
    auto reach = plain;
    reach.reach = 10min;
    auto paused = plain;
    paused.pauses = {{"x", ""}, {"y", "z"}};
    auto left = plain;
    left.leave = {"n1", "r1"};
    auto unowned = plain;
    unowned.unowned_only = true;
    unowned.skip_recent = 1ms;
    for (auto const& r : {plain, floor, reach, paused, left, unowned}) {
      expect("look", look(r), "outbox_event_due", 60);
      expect_no_sort("look", look(r));
    }
    auto suspects = plain;
    suspects.suspects = spi::suspects::take_one;
    expect("look for a suspect", look(suspects), "outbox_event_due", 2 * due + 10);
    expect("next due", made([&](sql_text& t) { t << sets.next_due; }), "outbox_event_due", 5);
    auto beside = sets.next_due_beside_pauses;
    beside.replace(beside.find("[paused]"), 8, " AND `event_type` NOT IN ('x')");
    expect("next due beside pauses", made([&](sql_text& t) { t << beside; }), "outbox_event_due", 3010);
    expect("next grown", made([&](sql_text& t) { t.statement(sets.next_grown, {std::int64_t{1000}}); }),
           "outbox_event_due", 2 * due + 10);
  }
  EXPECT_EQ(store->backend().claim({.token = "n/1", .limit = 100, .lease = 30s}).rows.size(), 100U);
}

TEST_F(MysqlPlan, RowsAreTakenByTheirNumbers) {
  auto const first = std::stoll(db.ask("SELECT min(seq) FROM " + db.table() + " WHERE event_id LIKE 'n%'"));
  std::vector<std::int64_t> run, scattered;
  for (int i = 0; i < 50; ++i) {
    run.push_back(first + i);
    scattered.push_back(first + 3 * i);
  }
  for (auto const& numbers : {run, scattered}) {
    expect("take", made([&](sql_text& t) {
             t.statement(sets.take, {std::string_view{"n/1"}, std::int64_t{1000}});
             mysql::add_numbers(t, sets.seq, numbers);
           }),
           "PRIMARY", 120);
    expect("taken", made([&](sql_text& t) {
             t.statement(sets.taken, {std::string_view{"n/1"}});
             mysql::add_numbers(t, sets.seq, numbers);
           }),
           "PRIMARY", 120);
  }
  expect("make dead", made([&](sql_text& t) {
           t.statement(sets.make_dead, {std::string_view{"why"}, std::string_view{"n1"}});
         }),
         "outbox_event_id", 5);
}

TEST_F(MysqlPlan, SettlementsFindTheirRowsById) {
  std::vector<row_handle> handles;
  for (int i = 1; i <= 50; ++i) handles.push_back({"l" + std::to_string(i), "o/" + std::to_string(i)});
  std::vector<settlement> items;
  for (auto const how : {outcome::delivered, outcome::retry, outcome::defer, outcome::dead, outcome::release}) {
    sql::settle_group g;
    g.outcome = how;
    items.clear();
    for (auto const& h : handles) items.push_back({.row = h, .outcome = how, .error = "e"});
    for (std::size_t i = 0; i < items.size(); ++i) g.add(i, items[i]);
    expect("settle", made([&](sql_text& t) { mysql::add_settlement(t, sets, g); }), "outbox_event_id", 250);
    expect("owned", made([&](sql_text& t) { mysql::add_owned(t, sets, g); }), "outbox_event_id", 250);
    if (how != outcome::delivered) continue;
    g.of_one = true;
    expect("settle by id", made([&](sql_text& t) { mysql::add_settlement(t, sets, g); }), "outbox_event_id", 120);
    for (auto& l : g.locator) l = done + 1 + (&l - g.locator.data());
    expect("settle by number", made([&](sql_text& t) { mysql::add_settlement(t, sets, g); }), "PRIMARY", 120);
  }
  std::vector<sql::optional_text> ids, tokens;
  for (auto const& h : handles) {
    ids.emplace_back(h.id);
    tokens.emplace_back(h.token);
  }
  expect("renew", made([&](sql_text& t) { mysql::add_for_rows(t, sets.renew, ids, tokens, {std::int64_t{1000}}); }),
         "outbox_event_id", 250);
}

TEST_F(MysqlPlan, ReleasesReadLiveLeasesOnly) {
  auto text = sets.release;
  for (auto at = text.find("[tokens]"); at != std::string::npos; at = text.find("[tokens]")) {
    text.replace(at, 8, "('o/1', 'o/2')");
  }
  sql_text t{{}};
  t.statement(text, {std::chrono::microseconds{2min}.count()});
  expect("release", t, "outbox_event_due", 3 * leased);
  EXPECT_EQ(store->backend().release(std::vector<owner_token>{"o/1", "o/2"}, 2min), 2U);
}

TEST_F(MysqlPlan, PurgeReadsWhatHasEnded) {
  for (bool const analyse : {false, true}) {
    if (analyse) caller.execute("ANALYZE TABLE " + db.table());
    sql_text t{{}};
    t.statement(shared.purge, {std::int64_t{1}, std::int64_t{1}, sql::from_now{}, std::int64_t{100}});
    expect("purge", t, "outbox_event_ended", 1000);
    // Also if there is nothing to be had.
    sql_text old{{}};
    old.statement(shared.purge, {std::int64_t{1}, std::int64_t{1}, sql::from_now{-24h}, std::int64_t{100}});
    expect("purge of nothing", old, "outbox_event_ended", 10);
  }
  EXPECT_EQ(store->backend().purge({.retention = 0s, .limit = 500}), 500U);
}

TEST_F(MysqlPlan, ClaimsInOrderReadPendingRowsOnly) {
  for (bool const analyse : {false, true}) {
    if (analyse) caller.execute("ANALYZE TABLE " + db.table());
    claim_request const r{.lease = 30s, .in_order = true};
    expect("look in order", look(r), "outbox_event_ended", 600);
    auto paused = r;
    paused.pauses = {{"x", ""}};
    expect("look in order", look(paused), "outbox_event_ended", 600);
  }
}

// Rows of one event, for operators and for writers.
TEST_F(MysqlPlan, OneEventIsFoundById) {
  sql_text t{{}};
  t.statement(shared.find, {std::string_view{"d5"}});
  expect("find", t, "outbox_event_id", 5);
  sql_text there{{}};
  there << "SELECT count(*) FROM " << sets.table << " WHERE " << sets.event_id << " IN ('d5','n7','x') AND "
        << sets.locked_by << " IN ('a')";
  expect("all there", there, "outbox_event_id", 12);
}

// A table with a key of many rows, most of them finished, and with as many keys of one row.
class MysqlKeyPlan : public MysqlPlan {
 protected:
  static constexpr int line = 5'000;

  void SetUp() override {
    MysqlPlan::SetUp();
    if (IsSkipped()) return;
    auto o = db.options();
    o.keyed = true;
    mysql::migrate(db.url(), o);
    store->backend().set_keyed(true);
    db.execute("UPDATE " + db.table() + " SET ordering_key = 'k' WHERE event_id LIKE 'd%' OR event_id LIKE 'l%'");
    db.execute("UPDATE " + db.table() + " SET ordering_key = event_id WHERE event_id LIKE 'n%'");
    fill("k", line, "0", "utc_timestamp(6) - INTERVAL 1 SECOND", "NULL", "NULL", "NULL");
    db.execute("UPDATE " + db.table() + " SET ordering_key = 'k', blocked = seq % 2 WHERE event_id LIKE 'k%'");
    middle = std::stoll(db.ask("SELECT seq FROM " + db.table() + " WHERE event_id = 'k2500'"));
    caller.execute("SET @outbox_rows = NULL, @outbox_next = '[[0]', @outbox_seq = " + std::to_string(middle) +
                   ", @outbox_key = (SELECT key_in_line FROM " + db.table() + " WHERE seq = " + std::to_string(middle) +
                   ")");
  }
  sql_text with(std::string const& statement, std::initializer_list<sql::value> values) const {
    return made([&](sql_text& t) { t.statement(statement, values); });
  }
  // Of a statement that may be the second of a text, whose first has been run.
  void expect_key(std::string const& name, sql_text const& text, std::int64_t most) {
    expect(name, text, "outbox_event_keyed", most);
  }

  mysql::key_statements keys = mysql::statements_for_keys(layout, "utf8mb4_nopad_bin", true);
  std::int64_t middle = 0;
};

TEST_F(MysqlKeyPlan, ThePlaceOfARowIsReadByItsKeyAndNumber) {
  for (bool const analyse : {false, true}) {
    if (analyse) caller.execute("ANALYZE TABLE " + db.table());
    std::string_view const k = "=k";
    expect_key("around", with(keys.around, {k, middle, std::int64_t{10}}), 50);
    expect_key("run", with(keys.run, {k, middle, std::int64_t{64}}), 80);
    expect_key("add next", with(keys.add_next, {k, middle}), 5);
    expect_key("add next if left", with(keys.add_next_if_left, {k, middle, std::string_view{"d7"}}), 10);
    expect_key("place", with(keys.place, {}), 5);
    expect_key("page", with(keys.blocked_page, {k, middle, std::int64_t{100}}), 310);
    expect("find place", with(keys.find_place, {std::string_view{"k7"}}), "outbox_event_id", 5);
    expect_key("heal", with(keys.heal, {std::string_view{"=l"}, std::int64_t{100}}), 5 * due);
  }
}

TEST_F(MysqlKeyPlan, LooksNotesAndRunsReadTheirRowsOnly) {
  auto const due_of = [&](std::int64_t seq) {
    return db.ask("SELECT due_at FROM " + db.table() + " WHERE seq = ?", seq);
  };
  std::string pairs, rows;
  std::vector<std::string> ids;
  for (auto seq = middle; seq < middle + 100; seq += 2) {
    if (due_of(seq).empty()) ++seq;
    auto const number = std::to_string(seq);
    pairs += (pairs.empty() ? "[[" : ",[") + number + "," + std::to_string(seq - 1) + ",\"" + due_of(seq) + "\"]";
    rows += (rows.empty() ? "[[" : ",[") + number + ",\"" + due_of(seq) + "\"]";
    ids.push_back(db.ask("SELECT event_id FROM " + db.table() + " WHERE seq = ?", seq));
  }
  for (bool const analyse : {false, true}) {
    if (analyse) caller.execute("ANALYZE TABLE " + db.table());
    expect("look", look({.lease = 30s, .keyed = true}), "outbox_event_due", 60);
    expect("waiting", made([&](sql_text& t) { mysql::add_with_list(t, keys.waiting, ids); }), "outbox_event_id", 120);
    auto choose = keys.note.substr(keys.note.find("SELECT"));
    choose.resize(choose.find("; "));
    auto const note = made([&](sql_text& t) { mysql::add_with_rows(t, choose, pairs + "]"); });
    expect("note", note, "outbox_event_due", 400);
    expect("note", note, "PRIMARY", 400);
    expect("lock due", made([&](sql_text& t) { mysql::add_with_rows(t, keys.lock_due, rows + "]"); }),
           "outbox_event_due", 250);
    expect("lock waiting", made([&](sql_text& t) { mysql::add_with_rows(t, keys.lock_waiting, rows + "]"); }),
           "PRIMARY", 250);
    expect("unblock", with(keys.unblock, {}), "PRIMARY", 10);
  }
}

TEST_F(MysqlPlan, AnOverviewReadsWhatItCounts) {
  auto text = shared.overview;
  auto const put = [&](std::string const& mark, std::string const& by) {
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark)) text.replace(at, mark.size(), by);
  };
  put("?1", "100");
  put("?2", "utc_timestamp(6)");
  put("?3", "(utc_timestamp(6) - INTERVAL 1 MINUTE)");
  expect("overview", made([&](sql_text& t) { t << text; }), "outbox_event_due", 1000);
  EXPECT_THAT(plan_of(text), HasSubstr("\"key\": \"outbox_event_ended\""));
}

}  // namespace
}  // namespace outbox
