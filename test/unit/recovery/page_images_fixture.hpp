// page_images_fixture.hpp - stores with images of pages in their log: a random workload on tables
// and an index, the log read by page, and pages destroyed in the files.
#pragma once
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "btree/tree_redo.hpp"
#include "buffer/page_allocator.hpp"
#include "buffer/page_image.hpp"
#include "recovery/control_file.hpp"
#include "recovery/log_analysis.hpp"
#include "store/store_process.hpp"
#include "unit/recovery/crash_after.hpp"
#include "wal/log_reader.hpp"

namespace ls::test {

inline constexpr u32 kImageTable = 16700, kImageWide = 16701, kImageIndex = 16702;
inline constexpr u64 kImageXid = 1000;

inline ls_config images_config(const std::string &root, u32 frames) {
  ls_config c = small_config(root);
  c.buffer_pool_bytes = u64{frames} * 4096;
  c.max_log_bytes = u64{1} << 30;   // no checkpoint but those that are asked for
  c.checkpoint_seconds = 3600;
  c.log_buffer_bytes = 128 * 1024;
  c.page_images = true;
  return c;
}

// One client with tables of its own; what it has committed is known.
class ImageClient {
 public:
  ImageClient(StoreLife &store, Host &host, u32 number, u64 seed)
      : session(store.store(), &host, number),
        host_(host),
        random_(seed * 64 + number),
        number_(number) {}

  // Rows come, go, change and are locked, and entries come; the last transaction stays open.
  void work(u32 transactions) {
    for (u32 i = 0; i < transactions && !::testing::Test::HasFailure(); i++) transaction();
  }
  void fill(u32 rows) {
    ls_rel *rel = session.open(table());
    for (u32 i = 0; i < rows && !::testing::Test::HasFailure(); i += 50) {
      ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
      for (u32 k = 0; k < 50; k++) insert(rel, &committed_);
      session.commit();
    }
  }
  // Pages come and go again.
  void fill_in_vain(u32 rows) {
    Rows gone = committed_;
    ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
    for (u32 i = 0; i < rows; i++) insert(session.open(table()), &gone);
    session.abort();
  }
  void lock_all() {
    ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
    for (const auto &[id, data] : committed_) lock(session.open(table()), id);
    session.commit();
  }
  void leave_one_open() {
    ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
    for (u32 i = 0; i < 5; i++) change(&now_);
  }
  // Of rows that are committed, too; some changes are taken back.
  void change_without_end(u32 changes) {
    now_ = committed_;
    ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
    change_more(changes);
  }
  void change_more(u32 changes) {
    for (u32 i = 0; i < changes; i++) change(&now_);
    const u32 savepoint = ls_txn_savepoint(session.worker());
    Rows next = now_;
    for (u32 i = 0; i < changes; i++) change(&next);
    ls_txn_rollback_to(session.worker(), savepoint);
    for (u32 i = 0; i < changes; i++) change(&now_);
  }
  using Rows = std::map<u64, std::string>;
  // The rows that an earlier client of that number has left.
  void start_from(const Rows &rows) { committed_ = rows; }
  const Rows &committed() const { return committed_; }
  // Of the last transaction that has ended; and did it commit?
  u64 last_xid() const { return last_xid_; }
  bool last_committed() const { return last_committed_; }
  Rows found() { return session.contents(session.open(table())); }
  u32 table() const { return kImageTable + 10 * number_; }
  u32 index() const { return kImageIndex + 10 * number_; }

  Session session;
  std::function<void(u64 xid)> commit_record;   // if set, the host's own log decides
  std::function<void(u64 xid)> abort_record;    // the host has forgotten it

 private:
  u64 pick(u64 n) { return random_() % n; }
  std::string text() {
    return std::string(10 + pick(pick(8) == 0 ? 1500 : 200), static_cast<char>('a' + pick(26)));
  }

  void transaction() {
    Rows next = committed_;
    ASSERT_EQ(session.begin(), LS_OK) << session.err.message;
    for (u64 n = 1 + pick(8); n > 0; n--) change(&next);
    last_xid_ = session.xid();
    last_committed_ = pick(8) != 0;
    if (!last_committed_ && abort_record) abort_record(last_xid_);
    if (!last_committed_) return session.abort();
    if (commit_record) {
      ASSERT_EQ(session.commit_prepared(commit_record), LS_OK) << session.err.message;
    } else {
      session.commit();
    }
    committed_ = std::move(next);
  }

  void change(Rows *rows) {
    ls_rel *rel = session.open(table());
    const u64 what = pick(10);
    if (rows->empty() || what < 4) return insert(rel, rows);
    auto row = rows->lower_bound(pick(rows->rbegin()->first + 1));
    if (what < 7) {
      const std::string changed = text();
      ASSERT_EQ(session.update(rel, row->first, [&](const std::string &) { return changed; }),
                LS_OK) << session.err.message;
      row->second = changed;
    } else if (what < 9) {
      lock(rel, row->first);
    } else {
      ASSERT_EQ(session.remove(rel, row->first), LS_OK) << session.err.message;
      rows->erase(row);
    }
  }

  void insert(ls_rel *rel, Rows *rows) {
    u64 id;
    const std::string data = text();
    ASSERT_EQ(session.insert(rel, data, &id), LS_OK) << session.err.message;
    (*rows)[id] = data;
    u8 key[12];
    for (u8 &byte : key) byte = static_cast<u8>(random_());
    ASSERT_EQ(ls_index_insert(session.worker(), session.open(index(), true, LS_REL_INDEX), rel,
                              {key, sizeof key}, id, {}, &session.err), LS_OK)
        << session.err.message;
  }

  void lock(ls_rel *rel, u64 id) {
    HostSnapshot snapshot;
    host_.take(&snapshot, session.xid(), 1 << 20);
    ls_change c{id, &snapshot.s, nullptr, 0, LS_LOCK_UPDATE};
    ls_conflict conflict{};
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    bool newer;
    const ls_status status = ls_row_lock(session.worker(), rel, &c, false, buffer, &row, &newer,
                                         &conflict, &session.err);
    host_.release(snapshot);
    ASSERT_TRUE(status == LS_OK || status == LS_INVISIBLE || status == LS_SELF_MODIFIED)
        << to_text(status, session.err);
  }

  Host &host_;
  std::mt19937_64 random_;
  u32 number_;
  u64 last_xid_ = 0;
  bool last_committed_ = false;
  Rows committed_, now_;
};

// What the log has of each page, in its order.
struct LoggedPages {
  struct Op {
    Gsn gsn;
    u8 code;
    size_t bytes;   // of operands
  };
  std::map<std::pair<FileNo, PageNo>, std::vector<Op>> pages;
  std::map<FileNo, std::string> paths;

  explicit LoggedPages(const ls_config &config) {
    ControlFile control{};
    bool exists = false;
    EXPECT_TRUE(ok(control_read(config.data_dir, &control, &exists)) && exists);
    const std::string wal = std::string(config.data_dir) + "/wal";
    LogReader log(wal.c_str(), config.log_segment_bytes, control.redo_lsn, control.redo_run);
    const LogEntry *entry;
    for (;; log.pop()) {
      EXPECT_TRUE(ok(log.peek(&entry))) << last_error().message;
      if (!entry || ::testing::Test::HasFailure()) return;
      take(*entry);
    }
  }

  static bool is_free(const Op &op) { return op.code == kPageImage && op.bytes == 4; }   // IMG-4
  static bool is_whole(u8 code) {
    return code == kPageImage || code == kTreeImage || code == kTreeFormat || makes_trunk(code);
  }

 private:
  void take(const LogEntry &entry) {
    const LogRecord record = entry.record();
    if (record.kind == RecordKind::kFile) {
      FileRecord file;
      LogBytes path;
      ASSERT_EQ(load_file_record(record, &file, &path), nullptr);
      paths[file.file] = std::string(path.begin(), path.end());
    }
    if (!has_page_operations(record.kind)) return;
    LogOpReader reader(entry, record.body);
    for (;;) {
      LogOp op;
      bool end;
      ASSERT_TRUE(ok(reader.next(&op, &end))) << last_error().message;
      if (end) return;
      pages[{op.file, op.page}].push_back({entry.gsn, op.code, op.operands.size()});
    }
  }
};

// Of a file, from so many bytes of a page on: anything.
inline void tear_page(const std::string &path, PageNo page, u32 kept, std::mt19937_64 &random) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file) << path;
  std::string bytes(kPageSize - kept, '\0');
  for (char &byte : bytes) byte = static_cast<char>(random());
  file.seekp(static_cast<std::streamoff>(u64{page} * kPageSize + kept));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file) << path;
}

inline u32 pages_of(const std::string &path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<u32>(bytes / kPageSize);
}

}  // namespace ls::test
