// Which PostgreSQL installation the tests run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "support/postgres_server.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

class PostgresInstallation : public ::testing::Test {
 protected:
  PostgresInstallation() {
    if (char const* const text = std::getenv(variable)) before_ = text;
  }
  ~PostgresInstallation() override {
    if (before_) {
      ::setenv(variable, before_->c_str(), 1);
    } else {
      ::unsetenv(variable);
    }
  }
  static void choose(std::string const& directory) { ::setenv(variable, directory.c_str(), 1); }

  static constexpr char const* variable = "OUTBOX_TEST_POSTGRES_BIN";

 private:
  std::optional<std::string> before_;
};

TEST_F(PostgresInstallation, TheEnvironmentChoosesTheDirectory) {
  auto const usual = postgres_programs();
  temporary_directory const dir;
  std::filesystem::permissions(dir.string(), std::filesystem::perms{0755});  // the server does not run as root
  std::filesystem::create_directory_symlink(usual, dir / "bin");
  choose(dir / "bin");
  EXPECT_EQ(postgres_programs(), dir / "bin");
  EXPECT_NO_THROW(postgres_server{});
}

TEST_F(PostgresInstallation, AnEmptyValueIsTheDefault) {
  ::unsetenv(variable);
  auto const usual = postgres_programs();
  choose("");
  EXPECT_EQ(postgres_programs(), usual);
}

TEST_F(PostgresInstallation, ADirectoryWithoutAServerIsNamed) {
  temporary_directory const dir;
  choose(dir.string());
  try {
    postgres_server const s;
    FAIL() << "it started";
  } catch (std::runtime_error const& e) {
    EXPECT_EQ(e.what(), "OUTBOX_TEST_POSTGRES_BIN is '" + dir.string() +
                            "', and there is no program 'postgres' in it: set it to the bin directory of a PostgreSQL "
                            "installation");
  }
}

}  // namespace
}  // namespace outbox
