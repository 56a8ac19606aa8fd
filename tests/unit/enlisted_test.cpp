// The end of a transaction, as stores and adapters use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/spi/enlisted.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox {
namespace {

using spi::enlisted;
using ::testing::ElementsAre;

class observer final : public transaction_observer {
 public:
  explicit observer(std::vector<std::string> ids, std::string token = "n/1")
      : ids_{std::move(ids)}, token_{std::move(token)} {}
  std::size_t size() const noexcept override { return ids_.size(); }
  std::string const& event_id(std::size_t i) const noexcept override { return ids_[i]; }
  std::string const& token(std::size_t) const noexcept override { return token_; }
  void absent(std::size_t i) noexcept override { said.insert(said.end(), "absent " + ids_[i]); }
  void committed() noexcept override { end("committed"); }
  void rolled_back() noexcept override { end("rolled back"); }
  void committed_in_part() noexcept override { end("in part"); }
  void in_doubt() noexcept override { end("in doubt"); }

  std::vector<std::string> said;
  std::function<void()> at_end = [] {};

 private:
  void end(char const* how) {
    said.emplace_back(how);
    at_end();
  }
  std::vector<std::string> ids_;
  std::string token_;
};

class Enlisted : public ::testing::Test {
 protected:
  std::shared_ptr<observer> write(std::size_t table, std::vector<std::string> ids, std::string token = "n/1") {
    auto o = std::make_shared<observer>(std::move(ids), std::move(token));
    writes.enlist(o);
    writes.writes_to(table);
    return o;
  }
  enlisted writes;
};

TEST_F(Enlisted, EveryObserverIsToldOnce) {
  auto const a = write(0, {"a"});
  auto const b = write(1, {"b"});
  writes.committed();
  EXPECT_TRUE(writes.empty());
  writes.rolled_back();
  writes.in_doubt();
  EXPECT_THAT(a->said, ElementsAre("committed"));
  EXPECT_THAT(b->said, ElementsAre("committed"));
}

TEST_F(Enlisted, AnObserverMayBeginTheNextTransaction) {
  auto const a = write(0, {"a"});
  std::shared_ptr<observer> next;
  a->at_end = [&] { next = write(0, {"next"}); };
  writes.rolled_back();
  EXPECT_THAT(next->said, ElementsAre());
  EXPECT_FALSE(writes.empty());
  writes.committed();
  EXPECT_THAT(a->said, ElementsAre("rolled back"));
  EXPECT_THAT(next->said, ElementsAre("committed"));
}

TEST_F(Enlisted, RowsThatAreMissingAreAbsentInTheirTable) {
  auto const a = write(0, {"a", "b"});
  auto const b = write(1, {"a", "b"});
  writes.confirm([](enlisted::row const& r) { return (r.table == 0) == (r.event_id == "a"); });
  writes.committed();
  EXPECT_THAT(a->said, ElementsAre("absent b", "committed"));
  EXPECT_THAT(b->said, ElementsAre("absent a", "committed"));
}

TEST_F(Enlisted, OfTwoRowsThatCannotBeToldApartTheLaterOneCounts) {
  auto const first = write(0, {"a"}, "");
  auto const other = write(0, {"a"}, "n/1");
  auto const second = write(0, {"a"}, "");
  writes.confirm([](enlisted::row const& r) { return r.token.empty(); });
  writes.committed();
  EXPECT_THAT(first->said, ElementsAre("absent a", "committed"));
  EXPECT_THAT(other->said, ElementsAre("absent a", "committed"));
  EXPECT_THAT(second->said, ElementsAre("committed"));
}

TEST_F(Enlisted, AWriteInDoubtIsNotAskedForAndCommitsInPart) {
  auto const known = write(0, {"a"});
  auto const suppressed = write(0, {"b"});
  writes.doubt(1);
  auto const unreadable = write(1, {"c"});
  writes.doubt_table(1);
  std::vector<std::string> asked;
  writes.for_each_row([&](enlisted::row const& r) { asked.emplace_back(r.event_id); });
  writes.confirm([&](enlisted::row const& r) {
    asked.emplace_back(r.event_id);
    return true;
  });
  EXPECT_THAT(asked, ElementsAre("a", "a"));
  writes.committed();
  EXPECT_THAT(known->said, ElementsAre("committed"));
  EXPECT_THAT(suppressed->said, ElementsAre("in part"));
  EXPECT_THAT(unreadable->said, ElementsAre("in part"));
}

TEST_F(Enlisted, AWriteWithoutAnObserverHasItsNumberAndItsTable) {
  EXPECT_EQ(writes.writes_to(7), 0U);
  auto const a = write(8, {"a"});
  EXPECT_EQ(writes.table_of(0), 7U);
  EXPECT_EQ(writes.table_of(1), 8U);
  writes.in_doubt();
  EXPECT_THAT(a->said, ElementsAre("in doubt"));
}

TEST_F(Enlisted, AQuestionThatFailsMayBeAskedAgain) {
  auto const a = write(0, {"a"});
  EXPECT_THROW(writes.confirm([](enlisted::row const&) -> bool { throw std::runtime_error{"locked"}; }),
               std::runtime_error);
  writes.confirm([](enlisted::row const&) { return true; });
  writes.committed();
  EXPECT_THAT(a->said, ElementsAre("committed"));
}

}  // namespace
}  // namespace outbox
