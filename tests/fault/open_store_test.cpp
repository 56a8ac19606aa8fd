#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <outbox/open_store.hpp>

#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

std::string refusal(std::string const& url) {
  try {
    static_cast<void>(open_store(url));
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option) << e.what();
    return e.what();
  }
  return "accepted";
}

TEST(OpenStore, EachMemoryStoreIsNew) {
  auto const a = open_store("memory:");
  EXPECT_EQ(a->capabilities().kind, "memory");
  EXPECT_NE(a, open_store("memory:"));
}

TEST(OpenStore, SqliteTakesAPathAndOptions) {
  temporary_directory const dir;
  auto const s = open_store("sqlite:" + (dir / "a.db") + "?table=my_events&busy_timeout=600000");
  EXPECT_EQ(s->capabilities().kind, "sqlite");
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
  EXPECT_NO_THROW(static_cast<void>(open_store("sqlite://" + (dir / "a.db"))));
  EXPECT_TRUE(s->backend().findings().empty());
  auto const found = open_store("sqlite:" + (dir / "a.db") + "?synchronous=normal")->backend().findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "synchronous");
}

TEST(OpenStore, SaysWhatIsWrongWithTheUrl) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("shop.db"), HasSubstr("no scheme"));
#ifdef OUTBOX_HAS_POSTGRES
  EXPECT_THAT(refusal("oracle:x"), HasSubstr("'oracle'; this library was built with sqlite, memory and postgresql"));
#else
  EXPECT_THAT(refusal("oracle:x"), HasSubstr("'oracle'; this library was built with sqlite and memory"));
#endif
  EXPECT_THAT(refusal("sqlite:"), HasSubstr("names no file"));
  EXPECT_THAT(refusal("sqlite:x?speed=11"), HasSubstr("unknown parameter 'speed'"));
  EXPECT_THAT(refusal("sqlite:x?table"), HasSubstr("not name=value"));
  EXPECT_THAT(refusal("sqlite:x?table=a&table=b"), HasSubstr("twice"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=soon"), HasSubstr("no number"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=-1"), HasSubstr("busy_timeout"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=600001"), HasSubstr("busy_timeout"));
  EXPECT_THAT(refusal("sqlite:x?synchronous=off"), HasSubstr("full or normal"));
  EXPECT_THAT(refusal("memory:x"), HasSubstr("takes nothing"));
  EXPECT_THAT(refusal("sqlite:x?table=a;drop"), HasSubstr("letters, digits and underscores"));
}

TEST(OpenStore, AFileThatCannotBeOpenedIsNamedInTheError) {
  try {
    static_cast<void>(open_store("sqlite:/nonexistent/directory/x.db"));
    FAIL() << "opened";
  } catch (error const& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("/nonexistent/directory/x.db"));
  }
}

}  // namespace
}  // namespace outbox
