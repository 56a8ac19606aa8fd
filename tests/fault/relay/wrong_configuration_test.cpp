// What a person is told about a wrong configuration, word for word. Beside NAME.toml stands NAME.txt, what the tool
// says about it. OUTBOX_TEST_UPDATE_GOLDEN=1 writes the texts again: read the difference before you commit it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "fault/relay/relay_fixture.hpp"

namespace outbox {
namespace {

namespace fs = std::filesystem;

std::string text_of(fs::path const& file) {
  std::ifstream in{file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

TEST(RelayConfiguration, WhatIsWrongIsSaidWordForWord) {
  fs::path const directory = OUTBOX_WRONG_CONFIGURATIONS;
  int seen = 0;
  for (auto const& entry : fs::directory_iterator{directory}) {
    auto expected = entry.path();
    if (expected.extension() != ".toml") continue;
    ++seen;
    // In the directory, so that errors name the file and not the place of this tree. A build that counts lines may
    // complain about its counts elsewhere.
    auto const e = run("cd " + directory.string() + " && GCOV_ERROR_FILE=/dev/null " + OUTBOX_TOOL + " check-config " +
                       entry.path().filename().string());
    EXPECT_EQ(e.status, 2) << entry.path();
    expected.replace_extension(".txt");
    if (std::getenv("OUTBOX_TEST_UPDATE_GOLDEN") != nullptr) std::ofstream{expected} << e.out;
    EXPECT_EQ(e.out, text_of(expected)) << entry.path();
    EXPECT_FALSE(e.out.empty()) << entry.path();
  }
  EXPECT_GE(seen, 20) << "the files are there";
}

}  // namespace
}  // namespace outbox
