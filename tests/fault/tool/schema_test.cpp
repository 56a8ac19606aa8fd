// The schema as the tool sees it: migrate, and every verb on a table that is not there.
#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;

template <class Database>
class ToolSchema : public verb_fixture<Database> {};
TYPED_TEST_SUITE(ToolSchema, tool_databases, name_of_tool_database);

TYPED_TEST(ToolSchema, WithoutATableAVerbSaysHowToMakeIt) {
  for (std::string const verb : {"status", "list", "errors", "nodes", "audit", "tail", "pause"}) {
    auto const r = this->run(verb);
    EXPECT_EQ(r.status, 5) << verb << r.err;
    EXPECT_THAT(r.err, HasSubstr("there is no outbox table")) << verb;
    EXPECT_THAT(r.err, HasSubstr("outbox migrate --db '")) << verb;
    EXPECT_EQ(r.out, "") << verb;
  }
  EXPECT_EQ(this->run("migrate", {"status", "-q"}).status, 5) << "and none of them has made one";
}

TYPED_TEST(ToolSchema, MigrateCreatesOnceAndStatusKnowsIt) {
  auto const before = this->json("migrate", {"status"}, 5);
  EXPECT_EQ(before.at("schema"), "none");
  EXPECT_EQ(this->json("migrate", {"up"}).at("change"), "created");
  EXPECT_EQ(this->json("migrate").at("change"), "nothing");
  auto const after = this->json("migrate", {"status"});
  EXPECT_EQ(after.at("schema"), "current");
  EXPECT_EQ(after.at("version"), spi::schema_version);
  EXPECT_EQ(this->run("status").status, 0);
  EXPECT_EQ(this->run("migrate", {"--sql"}).out, "");
}

// A person runs the text with the client of the database, and the library accepts what it made.
TYPED_TEST(ToolSchema, TheSqlThatIsPrintedMakesTheSchema) {
  auto const sql = this->run("migrate", {"--sql"});
  if (std::string{TypeParam::name} == "redis") {
    EXPECT_EQ(sql.status, 2);
    EXPECT_THAT(sql.err, HasSubstr("not made by SQL"));
    EXPECT_EQ(sql.out, "");
    return;
  }
  EXPECT_EQ(sql.status, 0) << sql.err;
  temporary_directory const dir;
  std::ofstream{dir / "schema.sql"} << sql.out;
  std::string const kind = TypeParam::name;
  std::string client;
  if constexpr (std::is_same_v<TypeParam, tool_on_sqlite>) {
    client = "sqlite3 -bail " + this->db.file();
  }
#ifdef OUTBOX_HAS_POSTGRES
  if constexpr (std::is_same_v<TypeParam, tool_on_postgres>) {
    client = postgres_programs() + "/psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -U outbox -d postgres -p " +
             std::to_string(postgres_server::shared().port());
  }
#endif
#ifdef OUTBOX_HAS_MYSQL
  if constexpr (std::is_same_v<TypeParam, tool_on_mysql>) {
    auto const at = mysql::parse_url(this->db.url());
    client = "MYSQL_PWD='" + at.password + "' mariadb --no-defaults --protocol=TCP -h " + at.host + " -P " +
             std::to_string(at.port) + " -u " + at.user + " " + this->db.database().database();
  }
#endif
  ASSERT_EQ(std::system((client + " < " + (dir / "schema.sql") + " > /dev/null").c_str()), 0) << sql.out;
  EXPECT_EQ(this->json("migrate", {"status"}).at("schema"), "current");
  EXPECT_EQ(this->json("migrate").at("change"), "nothing");
  this->put("a", "t");
  EXPECT_EQ(this->json("list").size(), 1U);
}

TYPED_TEST(ToolSchema, ANewerSchemaIsLeftAlone) {
  static_cast<void>(this->store());
  make_newer(this->db);
  auto const r = this->run("status");
  EXPECT_EQ(r.status, 5);
  EXPECT_THAT(r.err, HasSubstr("the table has schema version 99, and this tool knows up to 2"));
  EXPECT_THAT(r.err, HasSubstr("Use a newer outbox."));
  EXPECT_NE(this->run("migrate").status, 0);
}

}  // namespace
}  // namespace outbox
