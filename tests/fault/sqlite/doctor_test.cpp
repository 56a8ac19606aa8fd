// What the store finds wrong with a file: each thing is broken, found, mended with what the finding says, and passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>

#include "sqlite/findings.hpp"
#include "support/findings.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using spi::finding_level;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SqliteDoctor : public ::testing::Test {
 protected:
  void run(std::string const& sql) { sqlite::connection{path}.execute(sql); }
  spi::finding found(std::string const& code, spi::finding_limits const& limits = {}) {
    return finding_of(*store, code, limits);
  }
  void mend(spi::finding const& f) {
    std::string_view rest = f.fix;
    while (!rest.empty()) {
      auto const end = std::min(rest.find('\n'), rest.size());
      auto line = std::string{rest.substr(0, end)};
      rest.remove_prefix(std::min(end + 1, rest.size()));
      while (!line.empty()) {
        auto const one = line.substr(0, line.find(';'));
        line.erase(0, std::min(one.size() + 1, line.size()));
        if (one.find_first_not_of(' ') != std::string::npos) run(one);
      }
    }
  }

  temporary_directory dir;
  std::string path = dir / "a.db";
  std::shared_ptr<outbox::store> store = sqlite::open(path);
};

TEST_F(SqliteDoctor, ANewFileIsWell) {
  EXPECT_THAT(complaints_of(*store), IsEmpty());
  EXPECT_GE(store->backend().findings().size(), 10U);
  for (auto const& f : store->backend().findings()) {
    EXPECT_NE(f.why, "") << f.code;
    EXPECT_TRUE(f.text.ends_with('.')) << f.text;
  }
}

TEST_F(SqliteDoctor, ATableOfAnotherNameIsWell) {
  sqlite::options o;
  o.table = "Other";
  EXPECT_THAT(complaints_of(*sqlite::open(path, o)), IsEmpty());
}

TEST_F(SqliteDoctor, AMissingIndexIsAProblemAndTheFixMakesIt) {
  run("DROP INDEX outbox_event_dead");
  auto const f = found("missing_index");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("outbox_event_dead"));
  EXPECT_THAT(f.fix, HasSubstr("CREATE INDEX outbox_event_dead ON outbox_event"));
  mend(f);
  EXPECT_EQ(found("missing_index").level, finding_level::passed);
}

TEST_F(SqliteDoctor, WithoutTheIndexOfClaimsWhatNeedsItIsSkippedAndNotPassed) {
  run("DROP INDEX outbox_event_ready");
  EXPECT_EQ(found("missing_index").level, finding_level::problem);
  EXPECT_EQ(found("expired_leases").level, finding_level::skipped);
  EXPECT_EQ(found("foreign_owner").level, finding_level::skipped);
  EXPECT_EQ(found("claim_plan").level, finding_level::warning);
}

TEST_F(SqliteDoctor, AnIndexOfAnotherDefinitionIsFoundAndTheClaimDoesNotUseIt) {
  run("DROP INDEX outbox_event_ready");
  run("CREATE INDEX outbox_event_ready ON outbox_event (available_at) WHERE status = 7");
  EXPECT_EQ(found("missing_index").level, finding_level::passed);
  auto const f = found("index_definition");
  EXPECT_EQ(f.level, finding_level::warning);
  EXPECT_EQ(found("claim_plan").level, finding_level::warning);
  mend(f);
  EXPECT_EQ(found("index_definition").level, finding_level::passed);
  EXPECT_EQ(found("claim_plan").level, finding_level::passed);
}

TEST_F(SqliteDoctor, ATableWithAnOrderPerKeyNeedsItsIndex) {
  EXPECT_EQ(found("keyed_index").level, finding_level::passed) << "it keeps no order";
  store->backend().set_keyed(true);
  EXPECT_THAT(complaints_of(*store), IsEmpty());
  run("DROP INDEX outbox_event_keyed");
  auto const missing = found("keyed_index");
  EXPECT_EQ(missing.level, finding_level::problem);
  mend(missing);
  EXPECT_EQ(found("keyed_index").level, finding_level::passed);
  run("DROP INDEX outbox_event_keyed");
  run("CREATE INDEX outbox_event_keyed ON outbox_event (ordering_key, seq)");
  auto const other = found("keyed_index");
  EXPECT_EQ(other.level, finding_level::warning);
  mend(other);
  EXPECT_EQ(found("keyed_index").level, finding_level::passed);
}

TEST_F(SqliteDoctor, AMissingColumnIsAProblem) {
  run("ALTER TABLE outbox_node DROP COLUMN erased");
  auto const f = found("schema_columns");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("outbox_node.erased is missing"));
  EXPECT_EQ(f.fix, "ALTER TABLE outbox_node ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;");
  mend(f);
  EXPECT_EQ(found("schema_columns").level, finding_level::passed);
}

TEST_F(SqliteDoctor, AColumnOfAnotherKindOrDefaultIsAWarning) {
  run("ALTER TABLE outbox_audit DROP COLUMN filter");
  run("ALTER TABLE outbox_audit ADD COLUMN filter BLOB");
  run("ALTER TABLE outbox_node DROP COLUMN dead");
  run("ALTER TABLE outbox_node ADD COLUMN dead INTEGER NOT NULL DEFAULT 7");
  auto const f = found("schema_columns");
  EXPECT_EQ(f.level, finding_level::warning);
  EXPECT_THAT(f.text, HasSubstr("outbox_audit.filter is BLOB instead of TEXT"));
  EXPECT_THAT(f.text, HasSubstr("outbox_node.dead has the default 7 instead of 0"));
}

TEST_F(SqliteDoctor, AMissingTableIsAProblem) {
  run("DROP TABLE outbox_audit");
  EXPECT_EQ(found("schema_columns").level, finding_level::problem);
  EXPECT_THAT(found("schema_columns").text, HasSubstr("table outbox_audit is missing"));
}

TEST_F(SqliteDoctor, AnotherSchemaVersionIsFound) {
  EXPECT_EQ(found("schema_version").level, finding_level::passed);
  run("UPDATE outbox_meta SET value = '1' WHERE name = 'schema_version'");
  EXPECT_EQ(found("schema_version").level, finding_level::problem);
  EXPECT_EQ(found("schema_version").fix, "outbox migrate");
  run("UPDATE outbox_meta SET value = '3' WHERE name = 'schema_version'");
  EXPECT_EQ(found("schema_version").level, finding_level::note);
}

TEST_F(SqliteDoctor, WeakDurabilityIsFound) {
  sqlite::options o;
  o.synchronous = sqlite::synchronous::normal;
  EXPECT_EQ(finding_of(*sqlite::open(path, o), "synchronous").level, finding_level::note);
  EXPECT_EQ(found("synchronous").level, finding_level::passed);
  o.read_only = true;
  EXPECT_THROW(finding_of(*sqlite::open(path, o), "synchronous"), std::runtime_error)
      << "a connection that only reads says nothing about those that write";
  EXPECT_EQ(found("journal_mode").level, finding_level::passed);
  store.reset();
  run("PRAGMA journal_mode = DELETE");
  auto const weak = finding_of(*sqlite::open(path, o), "journal_mode");
  EXPECT_EQ(weak.level, finding_level::warning);
  EXPECT_THAT(weak.text, HasSubstr("'delete'"));
}

TEST_F(SqliteDoctor, ALogThatAReaderKeepsGrowingIsFound) {
  spi::finding_limits limits;
  limits.wal_bytes = {100'000, 100'000'000};
  EXPECT_EQ(found("wal_size", limits).level, finding_level::passed);
  sqlite::connection reader{path};
  reader.execute("BEGIN");
  static_cast<void>(reader.query<std::int64_t>("SELECT count(*) FROM outbox_meta"));
  for (int i = 0; i < 20; ++i) {
    run("INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES ('e" +
        std::to_string(i) + "', 't', '\"' || hex(zeroblob(20000)) || '\"', '2020-01-01 00:00:00.000000', 'x')");
  }
  EXPECT_EQ(found("wal_size", limits).level, finding_level::warning);
  limits.wal_bytes.problem = 100'000;
  EXPECT_EQ(found("wal_size", limits).level, finding_level::problem);
}

TEST_F(SqliteDoctor, AFileThatTheUserMayNotWriteToIsAProblem) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without rights";
  EXPECT_EQ(found("privileges").level, finding_level::passed);
  ASSERT_EQ(::seteuid(65'534), 0);
  spi::finding const f = found("privileges");
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("65534"));
  EXPECT_THAT(f.fix, HasSubstr("chown 65534 '" + path + "'"));
}

TEST_F(SqliteDoctor, NetworkFileSystemsAreKnownByTheirNumber) {
  EXPECT_EQ(sqlite::network_file_system(0x6969), "NFS");
  EXPECT_EQ(sqlite::network_file_system(static_cast<long>(0xFFFFFFFFFE534D42UL)), "SMB2") << "as a signed number";
  EXPECT_EQ(sqlite::network_file_system(0xEF53), "") << "ext4";
  EXPECT_EQ(found("file_system").level, finding_level::passed);
}

TEST_F(SqliteDoctor, LeasesPastTheirEndAreAProblemWithoutALiveNode) {
  run("INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, locked_by, locked_at, "
      "lease_until) VALUES ('a', 't', '1', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', 'gone:1:x/7', "
      "'2020-01-01 00:00:00.000000', '2020-01-01 00:00:30.000000')");
  EXPECT_EQ(found("expired_leases").level, finding_level::problem);
  EXPECT_THAT(found("expired_leases").text, HasSubstr("1 of 1 pending row"));
  EXPECT_THAT(found("expired_leases").text, HasSubstr("gone:1:x/7"));
  EXPECT_EQ(found("foreign_owner").level, finding_level::passed);
  store->backend().heartbeat({.incarnation = "h:1:w", .mode = node_mode::writer_only, .lease = 1h});
  EXPECT_EQ(found("expired_leases").level, finding_level::problem) << "a writer claims nothing";
  store->backend().heartbeat({.incarnation = "h:1:x", .lease = 1h});
  EXPECT_EQ(found("expired_leases").level, finding_level::warning);
  static_cast<void>(store->backend().claim({.token = "n/1", .lease = 1h}));
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
}

TEST_F(SqliteDoctor, RowsThatAnotherProgramHasLockedAreAProblem) {
  run("INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, locked_by, locked_at) VALUES "
      "('a', 't', '1', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', 'java-7', '2020-01-01 "
      "00:00:00.000000')");
  EXPECT_EQ(found("foreign_owner").level, finding_level::problem);
  EXPECT_THAT(found("foreign_owner").text, HasSubstr("'java-7' has locked 1 of 1 pending row"));
  run("UPDATE outbox_event SET locked_by = ''");
  EXPECT_EQ(found("foreign_owner").level, finding_level::passed);
}

TEST_F(SqliteDoctor, ChecksReadNoMoreRowsThanTheLimitSays) {
  for (int i = 0; i < 5; ++i) {
    run("INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES ('e" +
        std::to_string(i) + "', 't', '1', '2020-01-01 00:00:00.000000', 'x')");
  }
  spi::finding_limits limits;
  limits.rows = 3;
  EXPECT_THAT(found("foreign_owner", limits).text, HasSubstr("None of 3 pending rows"));
}

}  // namespace
}  // namespace outbox
