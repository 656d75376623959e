// How often a scan goes down the tree: to begin and to seek beyond the leaf it has copied.
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexSearchesTest : public testing::Test {
 protected:
  void SetUp() override {
    LS_ASSERT_OK(session.begin());
    for (u64 n = 1; n <= 5000; n++) LS_ASSERT_OK(session.add(number_key(n), n));
    session.commit();
  }
  IndexStore store;
  IndexSession session{store, 0};
  ls_error err{};
};

TEST_F(IndexSearchesTest, one_for_a_range) {
  for (bool backward : {false, true}) {
    IndexScanner scan(session.worker(), session.index);
    EXPECT_EQ(scan.searches(), 0u);
    scan.range({}, std::nullopt, backward);
    EXPECT_EQ(scan.rest().size(), 5000u);
    EXPECT_EQ(scan.searches(), 1u) << "the other leaves are reached by fences";
  }
}

TEST_F(IndexSearchesTest, one_for_what_is_not_there) {
  IndexScanner scan(session.worker(), session.index);
  scan.range(number_key(7000), number_key(7001));
  EXPECT_FALSE(scan.next());
  EXPECT_EQ(scan.searches(), 1u);
}

TEST_F(IndexSearchesTest, none_for_a_range_that_is_empty) {
  IndexScanner scan(session.worker(), session.index);
  scan.range(number_key(7), number_key(7));
  EXPECT_FALSE(scan.next());
  EXPECT_EQ(scan.searches(), 0u);
}

TEST_F(IndexSearchesTest, seeks_only_beyond_the_leaf) {
  for (bool backward : {false, true}) {
    auto at = [&](u64 n) { return number_key(backward ? 5001 - n : n); };
    IndexScanner scan(session.worker(), session.index);
    scan.range({}, std::nullopt, backward);
    ASSERT_TRUE(scan.next());
    scan.seek(at(5));
    ASSERT_TRUE(scan.next());
    EXPECT_EQ(scan.searches(), 1u) << "in the first leaf";
    scan.seek(at(4000));
    auto entry = scan.next();
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->key, backward ? number_key(5000 - 4000) : at(4000));
    EXPECT_EQ(scan.searches(), 2u);
  }
}

}  // namespace
}  // namespace ls::test
