// Bytes of values in a host's log: a crash may take what was written to their file since the last
// place for recovery to begin, page by page, and what is committed is there again.
#include "recovery/values_replay.hpp"

#include <atomic>
#include <random>
#include <thread>

#include "os/fault.hpp"
#include "unit/store/store_lives.hpp"
#include "unit/wal/host_pump.hpp"

namespace ls::test {
namespace {

class ValuesInHostLog : public StoreLives {
 protected:
  static constexpr u32 kValues = 16420;
  using Contents = std::map<u64, std::string>;

  ValuesInHostLog() {
    config_.host_log = true;
    config_.fsync = true;
    directory_.create_file(kValues);
    std::ofstream(values_path()).flush();
    fs::copy(values_path(), synced());
  }
  ~ValuesInHostLog() override { fault_clear(); }

  std::string values_path() const { return file(kValues) + "_fsm"; }
  std::string synced() const { return temp_ / "synced"; }

  // A life that ends as a crash of the host does: what it has not flushed is lost.
  void live_with_host(const std::function<void(Session &)> &work) {
    StoreLife store(config_);
    replay(store.store());
    store_ = store.store();
    HostPump pump(store_, host_log_);
    LS_ASSERT_OK(store.recover(next_xid_));
    Host host(store_, next_xid_);
    host_ = &host;
    {
      Session s(store_, &host, 0);
      work(s);
    }
    next_xid_ = host.next_xid() + 100;
    LS_ASSERT_OK(ls_store_abandon(store_, &err));
  }

  // As at the end of its recovery the host's own begins behind it.
  void replay(ls_store *store) {
    host_log_.crash();
    ls_relay_replay_begin(store, false);
    for (u64 i = host_log_.redo(); i < host_log_.log().size(); i++) {
      const MemoryHost::Record &record = host_log_.log()[i];
      bool there = true;
      if (record.values) {
        const std::string path = HostDirectory::relation_path(record.relation.relation);
        const ls_value_bytes values{path.c_str(), static_cast<u32>(record.position),
                                    record.bytes.data(), record.bytes.size()};
        LS_ASSERT_OK(ls_values_replay(store, &values, &there, &err));
        EXPECT_EQ(there, fs::exists(file(record.relation.relation)));
      } else {
        LS_ASSERT_OK(ls_relay_replay(store, record.bytes.data(), record.bytes.size(),
                                     record.position, &err));
      }
    }
    LS_ASSERT_OK(ls_relay_replay_end(store, &err));
    host_log_.checkpoint();
    sync();
  }

  // VWAL-2: the redo point first, then the syncs.
  void checkpoint() {
    host_log_.checkpoint();
    const u32 request = ls_relay_sync(store_);
    while (!ls_relay_is_synced(store_, request)) std::this_thread::yield();
    sync();
  }
  void sync() { fs::copy(values_path(), synced(), fs::copy_options::overwrite_existing); }
  // Of what was written since, page by page, some is lost: all, or a half.
  void lose_writes(bool all, std::mt19937_64 &random) {
    if (all) {
      fs::copy(synced(), values_path(), fs::copy_options::overwrite_existing);
      return;
    }
    std::fstream in(synced(), std::ios::binary | std::ios::in);
    std::fstream out(values_path(), std::ios::binary | std::ios::in | std::ios::out);
    char page[kPageSize];
    for (u64 at = 0; in.read(page, sizeof page); at += sizeof page) {
      if (random() % 2 == 0) continue;
      out.seekp(static_cast<std::streamoff>(at));
      out.write(page, sizeof page);
    }
  }

  static std::string text(std::mt19937_64 &random, size_t bytes) {
    std::string data(bytes, '\0');
    for (char &c : data) c = static_cast<char>(random());
    return data;
  }
  // In a life of its own.
  Contents contents() {
    Contents found;
    live_with_host([&](Session &s) {
      found = s.value_contents(s.open(kValues, true, LS_REL_VALUES));
      ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
      bool compared;
      EXPECT_EQ(ls_value_check_pages(s.worker(), values, &compared, &s.err), LS_OK)
          << s.err.message;
    });
    return found;
  }
  static void expect_same(const Contents &found, const Contents &expected) {
    EXPECT_EQ(found.size(), expected.size());
    for (const auto &[value, data] : expected) {
      const auto at = found.find(value);
      ASSERT_NE(at, found.end()) << "value " << value;
      EXPECT_TRUE(at->second == data) << "value " << value << " of " << data.size() << " bytes";
    }
  }
  // The cleaner takes what is deleted out of its leaf.
  void await_free(Session &s, ls_rel *values, u64 pages) {
    ls_value_stats now{};
    for (int i = 0; i < 2000 && now.free_pages < pages; i++) {
      host_->publish();
      usleep(5000);
      ASSERT_EQ(ls_value_get_stats(s.worker(), values, &now, &s.err), LS_OK);
    }
    EXPECT_GE(now.free_pages, pages);
  }

  MemoryHost host_log_;
  std::mt19937_64 random_{20260101};
};

// VWAL-1.
TEST_F(ValuesInHostLog, a_commit_syncs_no_file_of_values_and_a_crash_takes_none) {
  Contents expected;
  live_with_host([&](Session &s) {
    ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
    fault_add({.op = FaultOp::kSync, .path_part = "_fsm", .every = true});
    for (const size_t bytes : {1, 1900, 1901, 4096, 5000, 9000, 70'000, 600'000}) {
      ASSERT_EQ(s.begin(), LS_OK);
      const std::string data = text(random_, bytes);
      u64 value;
      ASSERT_EQ(s.insert_value(values, data, &value), LS_OK) << s.err.message;
      s.commit();
      expected[value] = data;
    }
    EXPECT_EQ(fault_hits(), 0u);
    fault_clear();
    // The log has no more than there is.
    u64 logged = 0;
    for (const MemoryHost::Record &record : host_log_.log())
      logged += record.values ? record.bytes.size() : 0;
    EXPECT_LE(logged, 700'000u);
  });
  lose_writes(true, random_);
  expect_same(contents(), expected);
}

// VWAL-3: a page freed and used again between two places for recovery to begin.
TEST_F(ValuesInHostLog, old_bytes_over_newer_ones_are_followed_by_these) {
  for (const bool checkpoint_between : {false, true}) {
    Contents expected;
    live_with_host([&](Session &s) {
      ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
      for (int round = 0; round < 3; round++) {
        for (const auto &[value, data] : expected) {
          ASSERT_EQ(s.begin(), LS_OK);
          ASSERT_EQ(s.remove_value(values, value, data.size()), LS_OK) << s.err.message;
          s.commit();
        }
        if (!expected.empty()) await_free(s, values, 10);
        expected.clear();
        ls_value_stats before{};
        ASSERT_EQ(ls_value_get_stats(s.worker(), values, &before, &s.err), LS_OK);
        for (int i = 0; i < 10; i++) {
          ASSERT_EQ(s.begin(), LS_OK);
          const std::string data = text(random_, 4096);
          u64 value;
          ASSERT_EQ(s.insert_value(values, data, &value), LS_OK) << s.err.message;
          s.commit();
          expected[value] = data;
        }
        ls_value_stats after{};
        ASSERT_EQ(ls_value_get_stats(s.worker(), values, &after, &s.err), LS_OK);
        if (round > 0) {
          EXPECT_EQ(after.pages, before.pages) << "are used again";
        }
        if (checkpoint_between && round == 1) checkpoint();
      }
    });
    lose_writes(checkpoint_between, random_);
    expect_same(contents(), expected);
    live_with_host([&](Session &s) {
      ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
      ASSERT_EQ(s.begin(), LS_OK);
      for (const auto &[value, data] : expected)
        ASSERT_EQ(s.remove_value(values, value, data.size()), LS_OK);
      s.commit();
    });
  }
}

// The engine's thread moves values to make the file shorter: by way of the pump.
TEST_F(ValuesInHostLog, moved_values_are_in_the_log) {
  Contents expected;
  live_with_host([&](Session &s) {
    ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
    for (int i = 0; i < 1200; i++) {
      if (i % 100 == 0) {
        ASSERT_EQ(s.begin(), LS_OK);
      }
      const std::string data = text(random_, 4096);
      u64 value;
      ASSERT_EQ(s.insert_value(values, data, &value), LS_OK) << s.err.message;
      expected[value] = data;
      if (i % 100 == 99) s.commit();
    }
    checkpoint();
    ASSERT_EQ(s.begin(), LS_OK);
    for (int i = 0; i < 600; i++) {
      ASSERT_EQ(s.remove_value(values, expected.begin()->first, 4096), LS_OK) << s.err.message;
      expected.erase(expected.begin());
    }
    s.commit();
    ls_value_stats now{};
    // How far depends on how much was free when the thread began: it leaves 256 free pages alone.
    constexpr u64 kPages = 900;
    for (int i = 0; i < 20'000 && (now.moved_pages == 0 || now.pages > kPages); i++) {
      host_->publish();
      usleep(5000);
      ASSERT_EQ(ls_value_get_stats(s.worker(), values, &now, &s.err), LS_OK);
    }
    EXPECT_GT(now.moved_pages, 0u);
    EXPECT_LE(now.pages, kPages);
  });
  lose_writes(false, random_);
  expect_same(contents(), expected);
}

// VWAL-4.
TEST_F(ValuesInHostLog, a_file_is_not_forgotten_while_bytes_are_inserted_for_it) {
  live_with_host([&](Session &s) {
    ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
    std::atomic<bool> forgotten{false};
    std::thread other;
    host_log_.before_values = [&] {
      if (other.joinable()) return;
      other = std::thread([&] {
        const ls_rel_key key = relation_key(kValues);
        ls_rel_forget(store_, &key);
        forgotten = true;
      });
      usleep(100'000);
      EXPECT_FALSE(forgotten);
    };
    ASSERT_EQ(s.begin(), LS_OK);
    u64 value;
    (void)s.insert_value(values, text(random_, 4096), &value);
    ASSERT_TRUE(other.joinable());
    other.join();
    host_log_.before_values = nullptr;
    EXPECT_EQ(s.insert_value(values, text(random_, 4096), &value), LS_NOT_FOUND);
    s.abort();
  });
}

TEST_F(ValuesInHostLog, random_changes_crashes_and_lost_writes) {
  const u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Contents model;
  std::vector<std::string> often;
  for (int i = 0; i < 4; i++) often.push_back(text(random, 4096 * (1 + random() % 3)));
  for (int life = 0; life < 6; life++) {
    live_with_host([&](Session &s) {
      ls_rel *values = s.open(kValues, true, LS_REL_VALUES);
      for (u64 left = 40 + random() % 60; left > 0; left--) {
        Contents changed = model;
        ASSERT_EQ(s.begin(), LS_OK);
        for (u64 step = 1 + random() % 4; step > 0; step--) {
          if (!changed.empty() && random() % 2 == 0) {
            auto at = changed.lower_bound(random() % (changed.rbegin()->first + 1));
            ASSERT_EQ(s.remove_value(values, at->first, at->second.size()), LS_OK);
            changed.erase(at);
          } else {
            const std::string data = random() % 3 == 0
                                         ? often[random() % often.size()]
                                         : text(random, 1 + random() % (random() % 9 == 0 ? 90'000
                                                                                         : 9'000));
            u64 value;
            ASSERT_EQ(s.insert_value(values, data, &value), LS_OK) << s.err.message;
            changed[value] = data;
          }
        }
        if (random() % 5 == 0) {
          s.abort();
        } else {
          s.commit();
          model = changed;
        }
        if (random() % 15 == 0) checkpoint();
        if (random() % 4 == 0) usleep(2000);
      }
    });
    if (HasFatalFailure()) return;
    lose_writes(random() % 2 == 0, random);
    expect_same(contents(), model);
    if (HasFailure()) return;
  }
}

// ---- without a store

class ValuesReplayFiles : public testing::Test {
 protected:
  TempDirectory directory_;
  ValuesReplay replay_{directory_.path().c_str()};
  static inline const std::vector<u8> bytes_ = std::vector<u8>(5000, 'x');

  std::string path(const char *name) const { return directory_.path() + "/" + name; }
  void make(const char *name) { std::ofstream(path(name)).flush(); }
  bool write(const char *relation, PageNo page) {
    bool there = false;
    EXPECT_TRUE(ok(replay_.write(relation, page, bytes_, &there))) << last_error().message;
    return there;
  }
};

TEST_F(ValuesReplayFiles, a_relation_that_has_gone_gets_no_file) {
  EXPECT_FALSE(write("1", 0));
  EXPECT_FALSE(write("no directory/1", 0));
  make("1");
  EXPECT_TRUE(write("1", 2));
  EXPECT_EQ(std::filesystem::file_size(path("1_fsm")), 4 * kPageSize);
  // Gone, and there again, while it was open.
  std::filesystem::remove(path("1"));
  std::filesystem::remove(path("1_fsm"));
  EXPECT_FALSE(write("1", 0));
  EXPECT_FALSE(std::filesystem::exists(path("1_fsm")));
  make("1");
  EXPECT_TRUE(write("1", 0));
  EXPECT_EQ(std::filesystem::file_size(path("1_fsm")), 2 * kPageSize);
}

TEST_F(ValuesReplayFiles, segments_are_made_and_those_before_are_whole) {
  make("1");
  constexpr PageNo kPerSegment = kSegmentBytes / kPageSize;
  EXPECT_TRUE(write("1", 2 * kPerSegment - 1));
  EXPECT_EQ(std::filesystem::file_size(path("1_fsm")), kSegmentBytes);
  EXPECT_EQ(std::filesystem::file_size(path("1_fsm.1")), kSegmentBytes);
  EXPECT_EQ(std::filesystem::file_size(path("1_fsm.2")), kPageSize);
}

TEST_F(ValuesReplayFiles, more_files_than_are_kept_open) {
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 40; i++) {
      const std::string name = std::to_string(i);
      if (round == 0) make(name.c_str());
      EXPECT_TRUE(write(name.c_str(), static_cast<PageNo>(2 * round)));
    }
  }
  for (int i = 0; i < 40; i++)
    EXPECT_EQ(std::filesystem::file_size(path((std::to_string(i) + "_fsm").c_str())),
              4 * kPageSize);
}

}  // namespace
}  // namespace ls::test
