// Images of pages in the log: when they are made, and what redo makes of pages that are damaged.
#include <filesystem>
#include <thread>

#include "unit/recovery/page_images_fixture.hpp"

namespace ls::test {
namespace {

class PageImagesTest : public ::testing::TestWithParam<u32> {
 protected:
  PageImagesTest()
      : directory_(temp_.path()), config_(images_config(temp_.path(), GetParam() % 2 ? 120 : 900)) {
    for (u32 client = 0; client < 4; client++) {
      for (u32 relation : {kImageTable, kImageIndex})
        directory_.create_file(relation + 10 * client);
    }
  }

  Log log_of(StoreLife &store) { return store_process(*store.store()).log; }
  void checkpoint(StoreLife &store) { LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err)); }
  void harden(StoreLife &store) {
    Log log = log_of(store);
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
  }

  // All that was changed at or behind the horizon is destroyed in the files; how many pages.
  u32 destroy(const LoggedPages &logged, Gsn horizon) {
    std::mt19937_64 random(GetParam());
    u32 pages = 0;
    for (const auto &[place, ops] : logged.pages) {
      const std::string path = temp_ / logged.paths.at(place.first);
      // What still waits for the page was not written.
      const bool changed = std::any_of(ops.begin(), ops.end(), [&](const LoggedPages::Op &op) {
        return op.gsn >= horizon && !is_blind(op.code);
      });
      if (!changed || place.second >= pages_of(path)) continue;
      // Of a meta page the first sector does not tear.
      const u32 kept = place.second == kMetaPageNo ? 512 : static_cast<u32>(random() % 8 * 512);
      tear_page(path, place.second, kept, random);
      pages++;
    }
    return pages;
  }

  static bool is_blind(u8 code) { return code == kTreeInsert || code == kTreeOverwrite; }

  void expect_contents(StoreLife &store, const std::vector<ImageClient::Rows> &expected) {
    Host host(store.store(), 100'000);
    for (u32 i = 0; i < expected.size(); i++) {
      ImageClient client(store, host, i, 0);
      EXPECT_EQ(client.found(), expected[i]) << "table of client " << i;
      ls_check_result check;
      LS_EXPECT_OK(ls_rel_check(client.session.worker(), client.session.open(client.table()),
                                &check, &err));
      ls_rel *index = client.session.open(client.index(), true, LS_REL_INDEX);
      LS_EXPECT_OK(ls_rel_check(client.session.worker(), index, &check, &err));
      EXPECT_GE(check.rows, expected[i].size());
    }
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

// IMG-1 and IMG-3, REDO-5: of every page that was changed behind a checkpoint the log alone is
// enough, whatever the horizon does meanwhile.
TEST_P(PageImagesTest, every_page_that_was_changed_can_be_lost) {
  std::vector<ImageClient::Rows> expected;
  Gsn horizon = 0;
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    {
      ImageClient old(store, host, 0, GetParam()), young(store, host, 1, GetParam());
      if (GetParam() % 2) young.fill(4000);
      old.fill(2000);
      old.work(150);
      young.work(20);
      old.leave_one_open();   // the log is needed from before the horizon
      young.work(20);
      checkpoint(store);
      horizon = log_of(store).image_horizon();
      for (u32 i = 0; i < 10 && !HasFailure(); i++) {
        young.work(GetParam() % 3 * 10 + 5);
        if (i % 3 == 0) (void)log_of(store).advance_image_horizon();
      }
      if (GetParam() % 2) young.fill(200);
      young.fill_in_vain(300);
      young.leave_one_open();
      harden(store);
      expected = {old.committed(), young.committed()};
      if (GetParam() % 2) {
        EXPECT_GT(store_process(*store.store()).pool.stats().change_buffer_inserts, 0u);
      }
    }
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  ASSERT_GT(horizon, 1u);
  const LoggedPages logged(config_);
  EXPECT_GT(destroy(logged, horizon), 10u);
  EXPECT_TRUE(std::any_of(logged.pages.begin(), logged.pages.end(), [](const auto &page) {
    return LoggedPages::is_free(page.second.back());
  }));
  StoreLife store(config_);
  ASSERT_EQ(store.recover(100'000), LS_OK) << store.err.message;
  expect_contents(store, expected);
}

// IMG-1: a lock changes bits of a row that no record has, and the page is written for them.
TEST_P(PageImagesTest, a_lock_alone_is_a_change) {
  constexpr u32 kLocked = 500;   // some 25 pages
  ImageClient::Rows expected;
  Gsn horizon = 0;
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    {
      ImageClient client(store, host, 0, GetParam());
      client.fill(kLocked);
      expected = client.committed();
      checkpoint(store);
      horizon = log_of(store).image_horizon();
      client.lock_all();
      harden(store);
    }
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  EXPECT_GT(destroy(LoggedPages(config_), horizon), 10u);
  StoreLife store(config_);
  ASSERT_EQ(store.recover(100'000), LS_OK) << store.err.message;
  expect_contents(store, {expected});
}

// The same pages, and no images.
TEST_P(PageImagesTest, without_images_they_are_named) {
  config_.page_images = false;
  Gsn horizon = 0;
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    {
      ImageClient client(store, host, 0, GetParam());
      client.work(150);
      checkpoint(store);
      horizon = log_of(store).last_gsn() + 1;
      client.work(50);
      harden(store);
    }
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  EXPECT_GT(destroy(LoggedPages(config_), horizon), 0u);
  StoreLife store(config_);
  const ls_status status = store.recover(100'000);
  EXPECT_EQ(status, LS_CORRUPT) << to_text(status, store.err);
  EXPECT_NE(std::string(store.err.path).find("167"), std::string::npos) << store.err.path;
}

// REDO-2: images bring no file back that the host has truncated, as at the beginning of a drop.
TEST_P(PageImagesTest, a_truncated_file_stays_gone) {
  ImageClient::Rows expected;
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    {
      ImageClient dropped(store, host, 0, GetParam()), other(store, host, 1, GetParam());
      dropped.work(20);
      other.work(20);
      checkpoint(store);
      dropped.work(1 + GetParam() * 5);
      other.work(20);
      harden(store);
      expected = other.committed();
    }
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  for (u32 relation : {kImageTable, kImageIndex})
    std::filesystem::resize_file(temp_ / HostDirectory::relation_path(relation), 0);
  StoreLife store(config_);
  ASSERT_EQ(store.recover(100'000), LS_OK) << store.err.message;
  EXPECT_EQ(store.store()->report.files_missing, 2u);
  expect_contents(store, {{}, expected});
}

// IMG-2: several workers, while the horizon moves all the time.
TEST_P(PageImagesTest, one_image_of_a_page_for_each_horizon) {
  constexpr u32 kClients = 4;
  std::vector<Gsn> horizons;
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    std::atomic<u32> working{kClients};
    std::vector<std::thread> clients;
    for (u32 i = 0; i < kClients; i++) {
      clients.emplace_back([&, i] {
        ImageClient client(store, host, i, GetParam());
        client.work(120);
        working--;
      });
    }
    while (working > 0) {
      horizons.push_back(log_of(store).advance_image_horizon());
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    for (std::thread &client : clients) client.join();
    harden(store);
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  const LoggedPages logged(config_);
  u32 missing = 0, twice = 0, images = 0;
  for (const auto &[place, ops] : logged.pages) {
    size_t at = 0;
    for (size_t i = 0; i < horizons.size(); i++) {
      while (at < ops.size() && ops[at].gsn < horizons[i]) at++;
      const Gsn end = i + 1 < horizons.size() ? horizons[i + 1] : ~Gsn{0};
      if (at == ops.size() || ops[at].gsn >= end) continue;
      // The next record, or the whole page itself; what waits for its page has no image yet.
      size_t first = at;
      while (first < ops.size() && is_blind(ops[first].code)) first++;
      const Gsn changed = first < ops.size() ? ops[first].gsn : 0;
      while (first < ops.size() && ops[first].gsn == changed &&
             !LoggedPages::is_whole(ops[first].code))
        first++;
      missing += changed != 0 && changed < end &&
                 (first == ops.size() || !LoggedPages::is_whole(ops[first].code));
      u32 n = 0;
      for (size_t k = at; k < ops.size() && ops[k].gsn < end; k++) n += ops[k].code == kPageImage;
      images += n;
      twice += n > 2;   // one more where the page is given back
    }
  }
  EXPECT_EQ(missing, 0u);
  EXPECT_GT(images, 20u);
  EXPECT_LE(twice, horizons.size() / 20 + 1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PageImagesTest, ::testing::Range(1u, 7u));

}  // namespace
}  // namespace ls::test
