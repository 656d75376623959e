// A crash at every single change that a store makes to its files, and in the middle of each, during
// a short history of everything (crash_history.hpp): killed, or power lost in four ways.  After
// each the store is recovered and compared with what the client knows; some of the recoveries are
// crashed at their own changes, too.
//
// LS_CRASH_STEP=n leaves out all but every n-th place.
#include <cstdio>
#include <cstdlib>

#include "sim/crash_history.hpp"

namespace ls::test {
namespace {

using Keep = DiskImage::Keep;

constexpr const char *kTorn = "in the middle of the write";
constexpr const char *kKeepNames[] = {"killed", "power cut, only the log kept",
                                      "power cut, all but the log kept",
                                      "power cut, only what was synced kept"};

#if defined(__SANITIZE_THREAD__)
// What is looked for here is no race, and takes ten times as long.
constexpr u64 kDefaultStep = 40;
constexpr size_t kRecoveriesToCrash = 2;   // of all, evenly
#else
constexpr u64 kDefaultStep = 1;
constexpr size_t kRecoveriesToCrash = 12;
#endif
constexpr u64 kImagesStep = 12;   // so many times fewer places
constexpr size_t kCrashesInRecovery = 10;

u64 step() {
  const char *value = std::getenv("LS_CRASH_STEP");
  return value ? std::strtoull(value, nullptr, 10) : kDefaultStep;
}

// In memory if it can be had: files are made anew thousands of times.
std::filesystem::path fast_directory() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                   : std::filesystem::temp_directory_path();
}

class CrashPointsTest : public ::testing::Test {
 protected:
  CrashPointsTest() : original_(fast_directory()), scratch_(fast_directory()) {}
  ~CrashPointsTest() override {
    file_observer.store(nullptr);
    fault_clear();
  }

  // A moment of the history.
  struct Moment {
    size_t position;
    const char *how;
    bool ended = false;   // since then the host has committed all that it had prepared
    bool torn() const { return how == kTorn; }
    std::string describe() const {
      return "crash before change " + std::to_string(position) + ", " + how;
    }
  };

  std::string root() const { return scratch_ / "root"; }

  // Recover what is under root() and compare.  *state: which one it is.
  void recover(const Moment &moment, std::optional<size_t> *state,
               DiskRecorder *recorder = nullptr) {
    ls_config config = history_config(root());
    config.fsync = recorder != nullptr;
    StoreLife store(config);
    if (recorder) recorder->start();
    ls_status status = store.recover(history_->next_xid(moment.position), [&](ls_in_doubt &d) {
      bool held = false;
      for (const PreparedInHistory &p : history_->prepared())
        held |= p.xid == d.full_xid && p.held(moment.position);
      d.prepared = held && !moment.ended;
      return held ? moment.ended : history_->host_committed(d.full_xid, moment.position);
    });
    if (recorder) recorder->stop();
    ASSERT_EQ(status, LS_OK) << to_text(status, store.err);
    Host host(store.store(), history_->next_xid(moment.position));
    for (const PreparedInHistory &p : history_->prepared()) {
      if (p.held(moment.position) && !moment.ended) host.resume(p.xid);
    }
    {
      Session s(store.store(), &host, 0);
      compare(s, moment, state);
      if (*state && !moment.ended) finish_prepared(store, s, host, moment, **state);
    }
    ls_error err{};
    LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
    recoveries_++;
  }

  // Contents of the tables that there are.
  TableRows rows(Session &s, const Moment &moment) {
    TableRows found;
    ls_error &err = s.err;
    for (u32 table : kTables) {
      if (gone(table, moment.position)) continue;
      // VALUE-2, VFILE-1: each value that a snapshot sees is found without one, and is whole.
      found[table] = table == kValues ? s.value_contents(open_table(s, table))
                                      : s.contents(open_table(s, table));
      ls_check_result result;
      LS_EXPECT_OK(ls_rel_check(s.worker(), open_table(s, table), &result, &err));
      bool compared;
      if (table == kValues)
        LS_EXPECT_OK(ls_value_check_pages(s.worker(), open_table(s, table), &compared, &err));
    }
    return found;
  }

  // What the host has prepared the store has, whole: it can be committed, and rolled back.
  void finish_prepared(StoreLife &store, Session &s, Host &host, const Moment &moment,
                       size_t state) {
    TableRows expected = history_->state(state);
    bool commit = moment.position % 2 == 0;
    for (const PreparedInHistory &p : history_->prepared()) {
      ASSERT_EQ(ls_prepared_has(store.store(), host.tn(p.xid)), p.held(moment.position))
          << "transaction " << p.xid;
      if (!p.held(moment.position)) continue;
      if (commit) apply_changes(p.changes, &expected);
      if (commit) host.end(p.xid);
      ASSERT_EQ(ls_prepared_finish(s.worker(), host.tn(p.xid), commit, &s.err), LS_OK)
          << s.err.message;
      if (!commit) host.end(p.xid);
      commit = !commit;
    }
    std::erase_if(expected, [&](auto &entry) { return gone(entry.first, moment.position); });
    ASSERT_EQ(rows(s, moment), expected) << "after the prepared transactions' ends";
  }

  void compare(Session &s, const Moment &moment, std::optional<size_t> *state) {
    TableRows found = rows(s, moment);
    size_t first = history_->acknowledged(moment.position), last = history_->begun(moment.position);
    state->reset();
    for (size_t n = first; n <= last && !*state; n++) {
      TableRows expected = history_->state(n);
      for (const PreparedInHistory &p : history_->prepared()) {
        if (moment.ended && p.held(moment.position)) apply_changes(p.changes, &expected);
      }
      std::erase_if(expected, [&](auto &entry) { return !found.contains(entry.first); });
      if (found == expected) *state = n;
    }
    ASSERT_TRUE(*state) << "of what was committed between " << first << " (acknowledged) and "
                        << last << " (begun) it is nothing";
    compare_index(s, kRowIndex, found[kRows]);
    if (!history_->built(moment.position)) return;
    std::map<u64, std::string> built = history_->built_rows();
    std::erase_if(built, [&](auto &row) { return !found[kRows].contains(row.first); });
    compare_index(s, kBuiltIndex, built);
  }

  // Whether the host has no such table (any more): the files were made before all else.
  bool gone(u32 table, size_t position) const {
    return table == kDropped && history_->dropped(position);
  }

  // ILOG-1: every row has its entry.  ILOG-2: another entry of a row is there with the mark only.
  void compare_index(Session &s, u32 relation, std::map<u64, std::string> rows) {
    ls_error &err = s.err;
    ls_rel *index = s.open(relation, true, LS_REL_INDEX);
    ls_check_result result;
    LS_ASSERT_OK(ls_rel_check(s.worker(), index, &result, &err));
    ls_index_scan *scan = nullptr;
    LS_ASSERT_OK(ls_index_scan_open(s.worker(), index, &scan, &err));
    LS_EXPECT_OK(ls_index_scan_range(scan, {nullptr, 0}, {nullptr, 0}, false, &err));
    ls_index_entry entry;
    while (ls_index_scan_next(scan, &entry, &err) == LS_OK) {
      auto row = rows.find(entry.row_id);
      if (row == rows.end()) continue;  // of a row that is gone
      const std::string key(reinterpret_cast<const char *>(entry.key.data), entry.key.len);
      if (key == key_of_row(row->second)) {
        rows.erase(row);
      } else {
        EXPECT_TRUE(ls_index_may_be_stale(index))
            << "row " << entry.row_id << " has the entry " << key;
      }
    }
    ls_index_scan_close(scan);
    ASSERT_TRUE(rows.empty()) << "row " << rows.begin()->first << " has no entry";
  }

  // Crash a recovery of `image` here and there, and look whether the next finds the same.
  void crash_recovery(const DiskImage &image, Keep keep, const Moment &moment) {
    image.make(root(), keep);
    DiskRecorder recorder(root());
    std::optional<size_t> first, again;
    ASSERT_NO_FATAL_FAILURE(recover(moment, &first, &recorder));
    fault_clear();
    const size_t n = recorder.events().size();
    DiskImage during(recorder.beginning());
    for (size_t i = 0, next = 0; i <= n; i++) {
      if (i == next || i == n) {
        for (Keep kept : {Keep::kAll, Keep::kSynced}) {
          SCOPED_TRACE("recovery crashed before its change " + std::to_string(i) + " of " +
                       std::to_string(n));
          for (const bool ended : {true, false}) {
            during.make(root(), kept);
            ASSERT_NO_FATAL_FAILURE(recover({moment.position, moment.how, ended}, &again));
          }
        }
        next += std::max<size_t>(1, n / kCrashesInRecovery);
      }
      if (i < n) during.apply(recorder.events()[i]);
    }
    EXPECT_EQ(again, first) << "what a recovery has decided stays";
  }

  // The store as it would be found now.
  void look(const DiskImage &image, Keep keep, Moment moment) {
    moment.how = moment.how ? moment.how : kKeepNames[static_cast<int>(keep)];
    SCOPED_TRACE(moment.describe());
    std::optional<size_t> state;
    image.make(root(), keep);
    const std::optional<std::set<u64>> told = told_commits(moment);
    ASSERT_NO_FATAL_FAILURE(recover(moment, &state));
    if (told) compare_told(*told, moment, *state);
  }

  // What the host is told before it starts; nothing if the note itself was torn.
  std::optional<std::set<u64>> told_commits(const Moment &moment) {
    StoreLife store(history_config(root()));
    ls_commit_behind *commits = nullptr;
    u64 highest = 0;
    size_t n = 0;
    const ls_status status = ls_commits_behind(store.store(), &commits, &n, &highest, &store.err);
    std::set<u64> told;
    for (size_t i = 0; i < n; i++) told.insert(commits[i].full_xid);
    free(commits);
    if (status == LS_CORRUPT && moment.torn() && std::strstr(store.err.path, "host_sync_point"))
      return std::nullopt;
    EXPECT_EQ(status, LS_OK) << to_text(status, store.err);
    EXPECT_TRUE(told.empty() || *told.rbegin() <= highest);
    return told;
  }

  // All that recovery has kept since the last note, and nothing that it has not.
  void compare_told(const std::set<u64> &told, const Moment &moment, size_t state) {
    const std::map<u64, size_t> &commits = history_->own_commits();
    for (u64 xid : told) {
      auto commit = commits.find(xid);
      if (commit == commits.end()) {
        EXPECT_TRUE(history_->host_committed(xid, moment.position)) << "transaction " << xid;
      } else {
        EXPECT_LE(commit->second, state) << "transaction " << xid << " is not there";
      }
    }
    for (auto [xid, after] : commits) {
      if (after <= state && after > history_->noted(moment.position)) {
        EXPECT_TRUE(told.contains(xid)) << "transaction " << xid;
      }
    }
  }

  // The next change is a write: a part of it has reached the disk.
  void look_at_torn(const DiskImage &image, const DiskEvent &event, size_t position) {
    constexpr u64 kSector = 512;
    const u64 bytes = event.bytes.size(), sectors = (bytes + kSector - 1) / kSector;
    const u64 cut = sectors > 1 ? (1 + position * 7 % (sectors - 1)) * kSector : bytes / 2;
    DiskImage torn = image;
    if (position % 3 == 0) {
      torn.write(event, cut, bytes);
    } else {
      torn.write(event, 0, cut);
    }
    look(torn, Keep::kAll, {position, kTorn});
  }

  enum class Crash { kKill, kPowerCut };

  // Before change i; event: that change, null behind the last one.
  void look_at_kill(const DiskImage &image, const DiskEvent *event, size_t i) {
    if (!event || !event->is_sync()) look(image, Keep::kAll, {i, nullptr});
    if (HasFatalFailure()) return;
    if (event && event->kind == DiskEvent::Kind::kWrite) look_at_torn(image, *event, i);
  }
  void look_at_power_cut(const DiskImage &image, const DiskEvent *event, size_t i) {
    if (event && event->is_sync()) return look(image, Keep::kSynced, {i, nullptr});
    const bool log = image.unsynced(true), others = image.unsynced(false);
    if (log && others) {
      ASSERT_NO_FATAL_FAILURE(look(image, Keep::kLog, {i, nullptr}));
      ASSERT_NO_FATAL_FAILURE(look(image, Keep::kOthers, {i, nullptr}));
    }
    if (!event) look(image, Keep::kSynced, {i, nullptr});
  }

  void look_everywhere(const DiskRecorder &disk, const std::set<Crash> &crashes, u64 every) {
    const std::vector<DiskEvent> &events = disk.events();
    DiskImage image(disk.beginning());
    for (size_t i = 0; i <= events.size(); i++) {
      const DiskEvent *event = i < events.size() ? &events[i] : nullptr;
      if (i % every == 0) {
        if (crashes.contains(Crash::kKill))
          ASSERT_NO_FATAL_FAILURE(look_at_kill(image, event, i));
        if (crashes.contains(Crash::kPowerCut))
          ASSERT_NO_FATAL_FAILURE(look_at_power_cut(image, event, i));
      }
      const Keep keep = static_cast<Keep>(i % 4);
      const Crash crash = keep == Keep::kAll ? Crash::kKill : Crash::kPowerCut;
      if (i % (events.size() / kRecoveriesToCrash) == 0 && crashes.contains(crash)) {
        Moment moment{i, kKeepNames[i % 4]};
        SCOPED_TRACE(moment.describe());
        ASSERT_NO_FATAL_FAILURE(crash_recovery(image, keep, moment));
      }
      if (event) image.apply(*event);
    }
  }

  void run(const std::set<Crash> &crashes, u64 every);

  TempDirectory original_, scratch_;
  std::optional<CrashHistory> history_;
  size_t recoveries_ = 0;
};

void CrashPointsTest::run(const std::set<Crash> &crashes, u64 every) {
  HostDirectory directory(original_.path());
  for (u32 relation : {kRows, kWide, kDropped, kRowIndex, kValues}) directory.create_file(relation);
  DiskRecorder disk(original_.path());
  history_.emplace(original_.path(), disk);
  ASSERT_NO_FATAL_FAILURE(history_->run());
  ASSERT_FALSE(HasFailure());
  fault_clear();
  ASSERT_GT(disk.events().size(), 500u);
  ASSERT_NO_FATAL_FAILURE(look_everywhere(disk, crashes, every));
  std::printf("%zu changes, %zu recoveries\n", disk.events().size(), recoveries_);
}

// Two tests, for two processes.
TEST_F(CrashPointsTest, killed_at_every_change_of_a_short_history) { run({Crash::kKill}, step()); }
TEST_F(CrashPointsTest, power_cut_at_every_change_of_a_short_history) {
  run({Crash::kPowerCut}, step());
}

// The log also has images of pages.
TEST_F(CrashPointsTest, with_images_of_pages) {
  setenv("LS_PAGE_IMAGES", "1", 1);
  run({Crash::kKill, Crash::kPowerCut}, step() * kImagesStep);
  unsetenv("LS_PAGE_IMAGES");
}

}  // namespace
}  // namespace ls::test
