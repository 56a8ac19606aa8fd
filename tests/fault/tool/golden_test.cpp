// What people see, word for word: help texts and tables. To renew the files: OUTBOX_RENEW_GOLDEN=1 tool_manners_test.
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "fault/tool/verb_fixture.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;

class Golden : public verb_fixture<tool_on_sqlite> {
 protected:
  void compare(std::string const& name, std::string const& text) {
    auto const file = fs::path{OUTBOX_GOLDEN} / (name + ".txt");
    if (std::getenv("OUTBOX_RENEW_GOLDEN") != nullptr) {
      fs::create_directories(file.parent_path());
      std::ofstream{file} << text;
      return;
    }
    std::ifstream in{file};
    std::string const golden{std::istreambuf_iterator<char>{in}, {}};
    EXPECT_EQ(text, golden) << file;
  }
  // Dates of the same width, and the file's place.
  std::string masked(std::string text) const {
    text = std::regex_replace(text, std::regex{R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)"}, "YYYY-MM-DD hh:mm:ssZ");
    for (auto at = text.find(db.file()); at != std::string::npos; at = text.find(db.file())) {
      text.replace(at, db.file().size(), "shop.db");
    }
    return text;
  }
  // Rows whose ages do not change while the test runs: three days, and a minute more.
  void put_rows() {
    static_cast<void>(store());
    db.execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, "
        "status, attempts, available_at, created_at, inserted_at, done_at, last_error) WITH t(at) AS (SELECT "
        "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-3 days', '-60 seconds')), rows(id, type, status, attempts, error) "
        "AS "
        "(VALUES ('01JAB3J6ZK0000000000000001', 'order.placed', 0, 0, NULL), ('01JAB3J6ZK0000000000000002', "
        "'order.placed', 2, 3, 'HTTP 503 from the carrier'), ('01JAB3J6ZK0000000000000003', 'mail', 1, 0, NULL), "
        "('01JAB3J6ZK0000000000000004', 'mail', 3, 10, 'mailbox 01JAB3J6ZK0000000000000004 is full: it has been full "
        "for a long time, and nothing is going to change that'), ('01JAB3J6ZK0000000000000005', 'bidi', 3, 1, 'evil ' "
        "|| char(8238) || 'text' || char(27) || '[2J')) SELECT id, type, 'order', substr(id, -2), 't1', '{\"n\":1}', "
        "'{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}', status, attempts, at, at, "
        "at, "
        "CASE WHEN status IN (1, 3) THEN at END, error FROM rows, t");
  }
};

TEST_F(Golden, HelpTexts) {
  compare("help/outbox", run_tool({"--help"}).out);
  auto const all = run_tool({"--help"}).out;
  auto verbs = all.substr(all.find("Verbs:\n") + 7);
  verbs = verbs.substr(0, verbs.find("\n\n"));
  std::regex const line{R"((?:^|\n)  ([a-z-]+) )"};
  int found = 0;
  for (std::sregex_iterator at{verbs.begin(), verbs.end(), line, std::regex_constants::match_default}, end; at != end;
       ++at) {
    auto const verb = at->str(1);
    compare("help/" + verb, run_tool({verb, "--help"}).out);
    ++found;
  }
  EXPECT_GE(found, 18);
}

TEST_F(Golden, Tables) {
  put_rows();
  store().heartbeat({.incarnation = "web-1:4711:9f3a",
                     .name = "web-1",
                     .version = "0.1.0",
                     .lease = 30s,
                     .active = true,
                     .done = 12431});
  compare("status", masked(run("status", {"--pretty"}).out));
  compare("list", masked(run("list", {"--pretty"}).out));
  compare("show", masked(run("show", {"01JAB3J6ZK0000000000000004", "--pretty"}).out));
  compare("errors", masked(run("errors", {"--pretty"}).out));
  compare("replay_preview", masked(run("replay", {"--all", "--dry-run", "--pretty"}).out));
  compare("migrate_status", masked(run("migrate", {"status", "--pretty"}).out));
}

TEST_F(Golden, ADoctorThatFindsAHealthyFile) {
  store().heartbeat({.incarnation = "web-1:4711:9f3a",
                     .name = "web-1",
                     .version = "0.1.0",
                     .lease = 30s,
                     .active = true,
                     .routes = {{"any"}}});
  auto text = masked(run("doctor", {"--pretty", "--verbose"}).out);
  text = std::regex_replace(text, std::regex{R"(has [0-9.]+ (bytes|kB|MB))"}, "has N kB");
  compare("doctor", text);
}

TEST_F(Golden, ADoctorThatFindsProblems) {
  put_rows();
  db.execute("DROP INDEX outbox_event_ended");
  compare("doctor_problems", masked(run("doctor", {"--pretty"}).out));
}

}  // namespace
}  // namespace outbox
