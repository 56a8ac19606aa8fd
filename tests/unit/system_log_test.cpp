// The journal as a socket of the test, and syslog(3) as functions of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <outbox/error.hpp>
#include <outbox/system_log.hpp>

#include "support/temporary_directory.hpp"

namespace {

struct syslog_record {
  std::string ident;
  int options = 0, facility = 0;
  std::vector<std::pair<int, std::string>> lines;
} seen_by_syslog;

void keep_line(int priority, char const* format, std::va_list arguments) {
  char text[4096];
  std::vsnprintf(text, sizeof text, format, arguments);
  seen_by_syslog.lines.emplace_back(priority, text);
}

}  // namespace

// These come before those of the C library when the program is linked. The second one is what a call becomes when the
// library is built with its checks.
extern "C" {
void openlog(char const* ident, int options, int facility) { seen_by_syslog = {ident, options, facility, {}}; }
void syslog(int priority, char const* format, ...) {  // NOLINT(cert-dcl50-cpp): as in the C library
  std::va_list arguments;
  va_start(arguments, format);
  keep_line(priority, format, arguments);
  va_end(arguments);
}
void __syslog_chk(int priority, int /*flag*/, char const* format, ...) {  // NOLINT: the name of the C library
  std::va_list arguments;
  va_start(arguments, format);
  keep_line(priority, format, arguments);
  va_end(arguments);
}
}

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// What journald does: it receives datagrams.
class journal_socket {
 public:
  explicit journal_socket(std::string const& path) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  journal_socket(journal_socket const&) = delete;
  journal_socket& operator=(journal_socket const&) = delete;
  ~journal_socket() { ::close(socket_); }

  /// The next datagram that is there; "(none)" if there is none.
  std::string next() {
    std::string bytes(std::size_t{1} << 20U, '\0');
    auto const n = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0) return "(none)";
    bytes.resize(static_cast<std::size_t>(n));
    return bytes;
  }

 private:
  int socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

class Journal : public ::testing::Test {
 protected:
  temporary_directory dir;
  std::string const path = dir / "socket";
  log_field const fields[2] = {{"event", "01JD"}, {"aggregate-type", "a b"}};
};

TEST_F(Journal, ALineIsAnEntryWithItsFields) {
  journal_socket journald{path};
  auto const log = log_to_journal({.identifier = "shop", .socket = path});
  log({.level = log_level::error, .message = "event 01JD is DEAD", .source = "node 'n' on t", .fields = fields});
  EXPECT_EQ(journald.next(),
            "MESSAGE=node 'n' on t: event 01JD is DEAD\nPRIORITY=3\nSYSLOG_IDENTIFIER=shop\nOUTBOX_EVENT=01JD\n"
            "OUTBOX_AGGREGATE_TYPE=a b\n");
}

TEST_F(Journal, AValueWithALineBreakGoesWithItsLength) {
  journal_socket journald{path};
  log_field const hostile{"error", "no\nPRIORITY=0"};
  log_to_journal({.socket = path})({.level = log_level::warning, .message = "m", .fields = {&hostile, 1}});
  std::string const length{"\x0d\0\0\0\0\0\0\0", 8};
  EXPECT_EQ(journald.next(),
            "MESSAGE=m\nPRIORITY=4\nSYSLOG_IDENTIFIER=outbox\nOUTBOX_ERROR\n" + length + "no\nPRIORITY=0\n");
}

TEST_F(Journal, EachLevelHasItsPriority) {
  journal_socket journald{path};
  auto const log = log_to_journal({.socket = path, .least = log_level::debug});
  for (auto const& [level, priority] : {std::pair{log_level::debug, "7"}, std::pair{log_level::info, "6"},
                                        std::pair{log_level::warning, "4"}, std::pair{log_level::error, "3"}}) {
    log({level, "m"});
    EXPECT_THAT(journald.next(), HasSubstr(std::string{"\nPRIORITY="} + priority + "\n"));
  }
}

TEST_F(Journal, LessImportantLinesAreLeftOut) {
  journal_socket journald{path};
  auto const log = log_to_journal({.socket = path, .least = log_level::error});
  log({log_level::warning, "m"});
  EXPECT_EQ(journald.next(), "(none)");
}

TEST_F(Journal, ALongValueIsCutOffAtACharacter) {
  journal_socket journald{path};
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\xe2\x82\xac";
  log_field const one{"error", text};
  log_to_journal({.socket = path})({.message = "m", .fields = {&one, 1}});
  auto const entry = journald.next();
  auto const at = entry.find("OUTBOX_ERROR=") + std::strlen("OUTBOX_ERROR=");
  EXPECT_EQ(entry.size() - 1 - at, 16383U) << "5461 characters of three bytes";
}

TEST_F(Journal, WithoutJournaldTheLineGoesToStandardError) {
  auto const log = log_to_journal({.socket = path});
  ::testing::internal::CaptureStderr();
  log({.level = log_level::warning, .message = "the hot path is full", .source = "node 'n'"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "outbox warning: node 'n': the hot path is full\n");
}

TEST_F(Journal, AJournaldThatIsStartedAgainGetsTheNextLine) {
  auto const log = log_to_journal({.socket = path});
  { journal_socket const first{path}; }
  ::unlink(path.c_str());
  journal_socket second{path};
  log({.message = "again"});
  EXPECT_THAT(second.next(), HasSubstr("MESSAGE=again\n"));
}

TEST_F(Journal, WrongOptionsAreRefusedByName) {
  auto const field = [](journal_options const& o) {
    try {
      static_cast<void>(log_to_journal(o));
    } catch (error const& e) {
      return std::string{e.field()};
    }
    return std::string{"(none)"};
  };
  EXPECT_EQ(field({.identifier = ""}), "identifier");
  EXPECT_EQ(field({.prefix = ""}), "prefix");
  EXPECT_EQ(field({.prefix = "_OUTBOX"}), "prefix") << "journald keeps such names for itself";
  EXPECT_EQ(field({.prefix = "out"}), "prefix");
  EXPECT_EQ(field({.socket = std::string(108, 's')}), "socket");
}

TEST(Syslog, GetsTheMessageAndTheFields) {
  auto const log = log_to_syslog("shop");
  EXPECT_EQ(seen_by_syslog.ident, "shop");
  EXPECT_EQ(seen_by_syslog.options, LOG_PID);
  EXPECT_EQ(seen_by_syslog.facility, LOG_DAEMON);
  log_field const fields[] = {{"event", "e"}, {"error", "100%s\n"}};
  log({.level = log_level::error, .message = "event e is DEAD: 100%s", .fields = fields});
  log({log_level::warning, "a warning"});
  log({log_level::debug, "left out"});
  EXPECT_THAT(seen_by_syslog.lines, ElementsAre(Pair(LOG_ERR, "event e is DEAD: 100%s event=e error=\"100%s\\u000a\""),
                                                Pair(LOG_WARNING, "a warning")));
}

TEST(Syslog, WithoutAnIdentTheProgramsOwnStays) {
  seen_by_syslog = {"mine", 0, 0, {}};
  auto const log = log_to_syslog({}, log_level::debug);
  log({log_level::debug, "m"});
  EXPECT_EQ(seen_by_syslog.ident, "mine");
  EXPECT_THAT(seen_by_syslog.lines, ElementsAre(Pair(LOG_DEBUG, "m")));
}

}  // namespace
}  // namespace outbox
