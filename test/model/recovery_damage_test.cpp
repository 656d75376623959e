// recovery_damage_test.cpp - what a crash has left, with wrong bytes under right checksums: log,
// control file, files of undo, double write, pages.  Recovery ends in an error or in a store that
// works, and never otherwise.  LS_SEED=n, LS_MODEL_SECONDS=n: seeds.hpp.
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/crc32c.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/doublewrite.hpp"
#include "buffer/page_allocator.hpp"
#include "model/damage.hpp"
#include "model/seeds.hpp"
#include "recovery/control_file.hpp"
#include "txn/undo_file.hpp"
#include "unit/recovery/crash_after.hpp"
#include "wal/log_record.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500, kOther = 16501, kIndex = 16502;
constexpr u64 kFirstXid = 20, kNextXid = 1000;
constexpr u32 kSegmentBytes = 1 << 20;
constexpr rlim_t kMostSeconds = 60;          // of CPU, for a round that takes some milliseconds
constexpr long kMostKilobytes = 1500 << 10;  // of memory, ASan's among it

using Bytes8 = std::vector<u8>;
using Files = std::map<std::string, Bytes8>;  // by path below the root

std::span<const u8> bytes_of(const auto &value) {
  return {reinterpret_cast<const u8 *>(&value), sizeof value};
}

class RecoveryDamage : public ::testing::Test {
 protected:
  RecoveryDamage() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    config_.prepared_slots = 2;
    config_.long_transaction_bytes = 1;
    config_.page_providers = 1;
    for (u32 relation : {kTable, kOther, kIndex})
      directory_.create_file(relation);
    first_life();
    load();
  }

  // Rows, entries, structure changes; a transaction that is prepared, long ones, losers.
  void first_life() {
    ASSERT_TRUE(crash_after(config_, kFirstXid, [&](StoreLife &store, Host &host) {
      Session s(store.store(), &host, 0), prepared(store.store(), &host, 1),
          loser(store.store(), &host, 2);
      ls_rel *rel = s.open(kTable), *other = s.open(kOther);
      std::vector<u64> ids;
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 i = 0; i < 300; i++)
        ids.push_back(insert(s, rel, i));
      s.commit();
      ASSERT_EQ(prepared.begin(), LS_OK);
      change(prepared, rel, {ids.begin(), ids.begin() + 20}, 'p');
      ASSERT_EQ(prepared.hand_over(), LS_OK);
      ASSERT_EQ(loser.begin(), LS_OK);
      change(loser, rel, {ids.begin() + 20, ids.begin() + 40}, 'l');
      ASSERT_EQ(ls_store_checkpoint(store.store(), &s.err), LS_OK) << s.err.message;
      ASSERT_EQ(ls_store_checkpoint(store.store(), &s.err), LS_OK) << s.err.message;
      for (u32 round = 0; round < 6; round++) {
        ASSERT_EQ(s.begin(), LS_OK);
        for (u32 i = 0; i < 60; i++)
          ids.push_back(insert(s, round % 2 ? rel : other, 1000 * round + i));
        change(s, rel, {ids.begin() + 50 + 10 * round, ids.begin() + 60 + 10 * round}, 's');
        for (u32 i = 0; i < 20; i++)
          (void)s.remove(rel, ids[150 + 20 * round + i]);
        round == 3 ? s.abort() : s.commit();
      }
      change(loser, rel, {ids.begin() + 22, ids.begin() + 30}, 'm');
      u64 first;
      ASSERT_EQ(loser.insert_many(other, std::vector<std::string>(30, "many"), &first), LS_OK);
      commit_row(s, other);
      crash_now();
    }));
  }
  static u64 insert(Session &s, ls_rel *rel, u32 i) {
    const u64 id =
        insert_row(s, rel, std::string(20 + i * 37 % 300, static_cast<char>('a' + i % 26)));
    const std::string key = std::to_string(i * 7919 % 1000) + std::string(1, '\0');
    const ls_bytes bytes{reinterpret_cast<const u8 *>(key.data()), static_cast<u32>(key.size())};
    ls_rel *index = s.open(kIndex, true, LS_REL_INDEX);
    const ls_status status = ls_index_insert(s.worker(), index, rel, bytes, id, {}, &s.err);
    // A row of the other table may have the same row id.
    EXPECT_TRUE(status == LS_OK || status == LS_EXISTS) << s.err.message;
    return id;
  }
  static void change(Session &s, ls_rel *rel, const std::vector<u64> &ids, char with) {
    for (u64 id : ids)
      EXPECT_EQ(
          s.update(rel, id, [&](const std::string &old) { return old + std::string(30, with); }),
          LS_OK)
          << s.err.message;
    insert(s, rel, 999);
  }

  void load() {
    for (const auto &file : std::filesystem::recursive_directory_iterator(temp_.path())) {
      if (!file.is_regular_file()) continue;
      Bytes8 &bytes = files_[std::filesystem::relative(file.path(), temp_.path())];
      bytes.resize(file.file_size());
      std::ifstream(file.path(), std::ios::binary)
          .read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
  }
  void store(const Files &files) const {
    for (const char *part : {"leanstore", "base/5"}) {
      for (const auto &file : std::filesystem::recursive_directory_iterator(temp_ / part)) {
        if (file.is_regular_file()) std::filesystem::remove(file.path());
      }
    }
    for (const auto &[path, bytes] : files) {
      std::ofstream(temp_ / path, std::ios::binary)
          .write(reinterpret_cast<const char *>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
  }
  static std::vector<std::string> paths_with(const Files &files, const std::string &part) {
    std::vector<std::string> found;
    for (const auto &[path, bytes] : files) {
      if (path.find(part) != std::string::npos && !bytes.empty()) found.push_back(path);
    }
    return found;
  }

  // Recovers the store in a child, and uses what is there then.
  bool live(const Files &files) const {
    store(files);
    return in_child([&] {
      const rlimit seconds{kMostSeconds, kMostSeconds + 10};   // SIGXCPU, not SIGKILL, ends a hang
      setrlimit(RLIMIT_CPU, &seconds);
      auto *store = new StoreLife(config_);  // never shut down
      std::freopen("/dev/stderr", "w", stdout);   // what fails in the child is seen
      const ls_status status = recover(*store);
      if (!to_be_found_.empty()) {
        const std::string found = status == LS_OK ? find_damage(*store) : store->err.path;
        EXPECT_EQ(to_be_found_, found) << to_text(status, store->err);
      }
      if (status == LS_OK)
        use(*store);
      else
        EXPECT_TRUE(is_refusal(status) && store->err.message[0] != '\0')
            << to_text(status, store->err);
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      EXPECT_LT(usage.ru_maxrss, kMostKilobytes);
    });
  }
  static bool is_refusal(ls_status status) {
    return status == LS_CORRUPT || status == LS_IO_ERROR || status == LS_NO_FRAMES ||
           status == LS_FOREIGN || status == LS_NOT_FOUND || status == LS_INVALID ||
           status == LS_TOO_LARGE || status == LS_NO_SPACE;
  }
  ls_status recover(StoreLife &store) const {
    return store.recover(kNextXid, [](ls_in_doubt &doubt) {
      doubt.prepared = doubt.two_phase && doubt.full_xid % 2 == 1;
      return doubt.full_xid % 4 == 0;
    });
  }

  static void may_fail(ls_status status, const ls_error &err) {
    EXPECT_TRUE(status == LS_OK || status == LS_END || is_refusal(status) || status == LS_EXISTS ||
                status == LS_BEING_MODIFIED || status == LS_UPDATED || status == LS_LOCKED ||
                status == LS_INVISIBLE || status == LS_DELETED)
        << to_text(status, err);
  }

  // REDO-6: what recovery has put off shows to the first reader of the page.
  static std::string find_damage(StoreLife &store) {
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    for (u32 relation : {kTable, kOther}) {
      ls_rel table;
      if (!open(s, relation, LS_REL_TABLE, &table)) return s.err.path;
      if (s.scan(&table, [](const ls_row &) {}) == LS_CORRUPT) return s.err.path;
    }
    ls_rel index;
    if (!open(s, kIndex, LS_REL_INDEX, &index)) return s.err.path;
    return scan_index(s, &index) == LS_CORRUPT ? s.err.path : "";
  }

  void use(StoreLife &store) const {
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    for (u32 relation : {kTable, kOther}) {
      ls_rel table, *const rel = &table;
      if (!open(s, relation, LS_REL_TABLE, rel)) continue;
      std::vector<u64> ids;
      may_fail(s.scan(rel, [&](const ls_row &row) { ids.push_back(row.row_id); }), s.err);
      if (s.begin() != LS_OK) return;
      u64 id = 0;
      may_fail(s.insert(rel, std::string(200, 'n'), &id), s.err);
      for (size_t i = 0; i < ids.size(); i += 7) {
        may_fail(
            i % 2 ? s.remove(rel, ids[i])
                  : s.update(rel, ids[i], [](const std::string &old) { return old + "changed"; }),
            s.err);
      }
      s.commit();
      ls_check_result result;
      may_fail(ls_rel_check(s.worker(), rel, &result, &s.err), s.err);
    }
    use_index(s);
    may_fail(ls_store_checkpoint(store.store(), &s.err), s.err);
    ls_error failure;
    EXPECT_FALSE(ls_store_failed(store.store(), &failure)) << failure.message;
  }
  static bool open(Session &s, u32 relation, ls_rel_kind kind, ls_rel *rel) {
    const ls_rel_key key = relation_key(relation);
    const std::string path = HostDirectory::relation_path(relation);
    const ls_status status = ls_rel_open(s.worker(), &key, path.c_str(), kind, true, rel, &s.err);
    may_fail(status, s.err);
    return status == LS_OK;
  }
  static ls_status scan_index(Session &s, ls_rel *index) {
    ls_index_scan *scan = nullptr;
    may_fail(ls_index_scan_open(s.worker(), index, &scan, &s.err), s.err);
    ls_status status = ls_index_scan_range(scan, {nullptr, 0}, {nullptr, 0}, false, &s.err);
    ls_index_entry entry;
    while (status == LS_OK)
      status = ls_index_scan_next(scan, &entry, &s.err);
    may_fail(status, s.err);
    ls_index_scan_close(scan);
    return status;
  }
  static void use_index(Session &s) {
    ls_rel index, table;
    if (!open(s, kIndex, LS_REL_INDEX, &index)) return;
    (void)scan_index(s, &index);
    if (s.begin() != LS_OK) return;
    u64 id = 0;
    if (open(s, kTable, LS_REL_TABLE, &table) && s.insert(&table, "row", &id) == LS_OK) {
      const std::string key = "5" + std::string(1, '\0');
      may_fail(ls_index_insert(s.worker(), &index, &table,
                               {reinterpret_cast<const u8 *>(key.data()), 2}, id, {}, &s.err),
               s.err);
    }
    s.commit();
  }

  void rounds(u64 usual, const std::function<void(Files &, Damage &)> &damage_files) {
    ASSERT_TRUE(live(files_)) << "without damage";
    each_seed(usual, [&](u64 seed) {
      Damage damage(seed);
      Files files = files_;
      damage_files(files, damage);
      EXPECT_TRUE(live(files)) << "seed " << seed;
      return !HasFailure();
    });
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  Files files_;
  std::string to_be_found_;  // the file in which recovery has to find damage; "": in any, or none
};

// ---- the log

// From the first segment on, as one sequence of bytes.
struct Stream {
  Bytes8 bytes;
  u64 first = 0;  // number of the segment

  void load(const Files &files) {
    for (const auto &[path, content] : files) {
      if (path.find("/wal/") == std::string::npos) continue;
      if (bytes.empty()) first = std::stoull(path.substr(path.size() - 16), nullptr, 16);
      bytes.insert(bytes.end(), content.begin(), content.end());
      bytes.resize((bytes.size() + kSegmentBytes - 1) / kSegmentBytes * kSegmentBytes);
    }
  }
  void store(Files &files) const {
    u64 at = 0;
    for (auto &[path, content] : files) {
      if (path.find("/wal/") == std::string::npos) continue;
      std::copy_n(bytes.begin() + static_cast<long>(at), content.size(), content.begin());
      at += kSegmentBytes;
    }
  }
  std::vector<RoundHeader> rounds(Lsn from) const {
    std::vector<RoundHeader> found;
    RoundHeader header;
    for (Lsn at = from; place(at) + kRoundHeaderBytes <= bytes.size() &&
                        load_round_header(bytes.data() + place(at), at, &header);
         at += header.bytes) {
      if (place(at) + header.bytes > bytes.size() || !is_whole(header, bytes.data() + place(at)))
        break;
      found.push_back(header);
    }
    return found;
  }
  u64 place(Lsn lsn) const { return lsn - first * kSegmentBytes; }
};

void each_record(const RoundHeader &header, const u8 *round,
                 const std::function<void(LogRecord &)> &each) {
  LogBytes left(round + kRoundHeaderBytes, header.bytes - kRoundHeaderBytes), records;
  ChunkHeader chunk;
  while (!left.empty() && !load_chunk(&left, header.complete_gsn, &chunk, &records)) {
    LogRecord record;
    for (Gsn before = chunk.before; !records.empty() && !load_record(&records, before, &record);
         before = record.gsn)
      each(record);
  }
}

void each_operation(LogRecord &record, const std::function<void(const LogOp &)> &each) {
  LogOp op;
  while (has_page_operations(record.kind) && !record.body.empty() && !load_op(&record.body, &op))
    each(op);
}

// Where the operands of each operation in a round are, and the bytes in front of them.
std::vector<std::span<u8>> operands_in(const RoundHeader &header, u8 *round) {
  std::vector<std::span<u8>> found;
  each_record(header, round, [&](LogRecord &record) {
    each_operation(record, [&](const LogOp &op) {
      found.push_back({const_cast<u8 *>(op.operands.data()), op.operands.size()});
    });
  });
  return found;
}

ControlFile control_of(const Files &files) {
  ControlFile control;
  std::memcpy(&control, files.at("leanstore/control").data(), sizeof control);
  return control;
}
Lsn redo_from(const Files &files) { return control_of(files).redo_lsn; }

TEST_F(RecoveryDamage, log_records) {
  rounds(10, [&](Files &files, Damage &damage) {
    Stream stream;
    stream.load(files);
    const auto all = stream.rounds(redo_from(files));
    ASSERT_GT(all.size(), 3u);
    RoundHeader header = all[damage.pick(static_cast<u32>(all.size()))];
    u8 *round = stream.bytes.data() + stream.place(header.lsn);
    const auto operands = operands_in(header, round);
    const u32 way = damage.pick(10);
    if (way < 7 && !operands.empty()) {
      for (u32 n = 1 + damage.pick(2); n > 0; n--) {
        const std::span<u8> chosen = operands[damage.pick(static_cast<u32>(operands.size()))];
        // Mostly the numbers at their beginning; or file, page, code and length in front of them.
        if (damage.pick(4) == 0)
          damage.bytes({chosen.data() - 6, 6});
        else
          damage.bytes(
              chosen.first(damage.pick(2) ? std::min<size_t>(chosen.size(), 8) : chosen.size()));
      }
    } else if (way < 9) {
      damage.bytes({round + kRoundHeaderBytes, header.bytes - kRoundHeaderBytes});
    } else {
      const u64 number = damage.pick(2) ? damage.random()() >> damage.pick(64)
                                        : header.complete_gsn + damage.pick(100);
      if (damage.pick(2))
        header.complete_gsn = number;
      else
        header.run = std::min<u64>(number, (u64{1} << 32) - 2);
    }
    store_round_header(header, round);
    stream.store(files);
  });
}

// ---- other files

TEST_F(RecoveryDamage, control_file) {
  rounds(4, [&](Files &files, Damage &damage) {
    Bytes8 &bytes = files.at("leanstore/control");
    ControlFile control;
    std::memcpy(&control, bytes.data(), sizeof control);
    u8 *fields = reinterpret_cast<u8 *>(&control) + offsetof(ControlFile, page_size);
    damage.bytes({fields, offsetof(ControlFile, store) - offsetof(ControlFile, page_size)});
    control.crc = 0;
    control.crc = crc32c(0, &control, sizeof control);
    std::memcpy(bytes.data(), &control, sizeof control);
  });
}

// Pieces are sealed one by one.
void damage_undo_file(Bytes8 &file, Damage &damage) {
  for (size_t at = 0; at + sizeof(UndoPieceHead) <= file.size();) {
    UndoPieceHead head;
    std::memcpy(&head, file.data() + at, sizeof head);
    const size_t end = at + sizeof head + head.bytes;
    if (end > file.size()) return;
    if (damage.pick(5) == 0)
      damage.bytes({file.data() + at, sizeof head});
    else
      damage.bytes({file.data() + at + sizeof head, head.bytes});
    std::memcpy(&head, file.data() + at, sizeof head);
    head.crc = 0;
    head.crc = crc32c(crc32c(0, &head, sizeof head), file.data() + at + sizeof head,
                      end - at - sizeof head);
    std::memcpy(file.data() + at, &head, sizeof head);
    at = end;
  }
}

void damage_undo_list(Bytes8 &file, Damage &damage) {
  constexpr size_t kCrc = 8;  // of all behind it
  damage.bytes({file.data() + kCrc + sizeof(u32), file.size() - kCrc - sizeof(u32)});
  const u32 crc = crc32c(0, file.data() + kCrc + sizeof(u32), file.size() - kCrc - sizeof(u32));
  std::memcpy(file.data() + kCrc, &crc, sizeof crc);
}

TEST_F(RecoveryDamage, files_of_undo) {
  ASSERT_GE(paths_with(files_, "undo/").size(), 2u) << "a list, and a file";
  ASSERT_EQ(paths_with(files_, "prepared/").size(), 1u);
  rounds(6, [&](Files &files, Damage &damage) {
    auto paths = paths_with(files, "undo/"), prepared = paths_with(files, "prepared/");
    paths.insert(paths.end(), prepared.begin(), prepared.end());
    const std::string &path = paths[damage.pick(static_cast<u32>(paths.size()))];
    path.find("list.") != std::string::npos ? damage_undo_list(files.at(path), damage)
                                            : damage_undo_file(files.at(path), damage);
  });
}

struct StoredPage {
  std::string path;
  PageNo page_no;

  u8 *in(Files &files) const { return files.at(path).data() + size_t{page_no} * kPageSize; }
  auto operator<=>(const StoredPage &) const = default;
};

// REDO-5: redo needs nothing of such a page.
bool has_whole_page(const LogOp &op) {
  return op.code == kTreeImage || op.code == kTreeFormat || makes_trunk(op.code);
}

// Nodes in the files that redo changes, and does not make anew.
std::vector<StoredPage> nodes_to_redo(Files &files) {
  Stream stream;
  stream.load(files);
  const auto all = stream.rounds(redo_from(files));
  const Gsn redo_gsn = control_of(files).redo_gsn;
  std::map<FileNo, std::string> paths;
  std::set<StoredPage> found, made;
  for (const RoundHeader &header : all) {
    each_record(header, stream.bytes.data() + stream.place(header.lsn), [&](LogRecord &record) {
      FileRecord file;
      LogBytes path;
      if (record.kind == RecordKind::kFile && !load_file_record(record, &file, &path))
        paths[file.file].assign(path.begin(), path.end());
      if (record.gsn > all.back().complete_gsn) return;
      each_operation(record, [&](const LogOp &op) {
        if (op.page == kMetaPageNo) return;
        const StoredPage page{paths.at(op.file), op.page};
        if (has_whole_page(op) && record.gsn >= redo_gsn) made.insert(page);
        const bool there = files.at(page.path).size() >= (size_t{op.page} + 1) * kPageSize;
        if (there && reinterpret_cast<const PageHeader *>(page.in(files))->gsn < record.gsn)
          found.insert(page);
      });
    });
  }
  std::vector<StoredPage> rest;
  std::ranges::set_difference(found, made, std::back_inserter(rest));
  return rest;
}

// With any GSN: redo changes them, or passes them.
TEST_F(RecoveryDamage, pages) {
  rounds(6, [&](Files &files, Damage &damage) {
    const auto paths = paths_with(files, "base/5/");
    for (u32 n = 1 + damage.pick(4); n > 0; n--) {
      Bytes8 &file = files.at(paths[damage.pick(static_cast<u32>(paths.size()))]);
      u8 *page =
          file.data() + size_t{damage.pick(static_cast<u32>(file.size() / kPageSize))} * kPageSize;
      if (damage.pick(3) == 0) reinterpret_cast<PageHeader *>(page)->gsn = damage.pick(2);
      damage.page(page);
      page_seal(page);
    }
  });
}

// Redo would write beside such a page: it, or the page's reader, has to name its file instead.
TEST_F(RecoveryDamage, nodes_that_redo_changes) {
  const auto pages = nodes_to_redo(files_);
  ASSERT_GT(pages.size(), 10u);
  rounds(6, [&](Files &files, Damage &damage) {
    const StoredPage &chosen = pages[damage.pick(static_cast<u32>(pages.size()))];
    u8 *page = chosen.in(files);
    const Bytes8 sound(page, page + kPageSize);
    do {
      std::memcpy(page, sound.data(), kPageSize);
      damage.page(page);
      page_seal(page);
    } while (!stored_page_fault(page, kInvalidPageNo));
    to_be_found_ = chosen.path;
  });
}

// Images of pages that are torn in their places.
TEST_F(RecoveryDamage, double_write) {
  rounds(4, [&](Files &files, Damage &damage) {
    Bytes8 &guard = files["leanstore/doublewrite"];
    guard.assign(kTearAreaBytes, 0);
    const auto paths = paths_with(files, "base/5/");
    const u32 n = 1 + damage.pick(5);
    TearHeader header{kTearMagic, 0, 0, n, static_cast<u32>(paths.size())};
    header.bytes =
        static_cast<u32>(sizeof header + n * sizeof(TearEntry) + paths.size() * sizeof(TearPath));
    const size_t images = (header.bytes + kPageSize - 1) / kPageSize * kPageSize;
    for (u32 i = 0; i < n; i++) {
      const u32 path = damage.pick(static_cast<u32>(paths.size()));
      Bytes8 &file = files.at(paths[path]);
      const PageNo page_no = damage.pick(static_cast<u32>(file.size() / kPageSize));
      u8 *page = file.data() + size_t{page_no} * kPageSize,
         *image = guard.data() + images + size_t{i} * kPageSize;
      std::memcpy(image, page, kPageSize);
      if (damage.pick(2)) damage.page(image);
      page_seal(image);
      page[1000] ^= 1;
      const TearEntry entry{page_no, path, reinterpret_cast<PageHeader *>(image)->checksum};
      std::memcpy(guard.data() + sizeof header + i * sizeof entry, &entry, sizeof entry);
    }
    for (size_t i = 0; i < paths.size(); i++) {
      std::strcpy(reinterpret_cast<char *>(guard.data() + sizeof header + n * sizeof(TearEntry) +
                                           i * sizeof(TearPath)),
                  paths[i].c_str());
    }
    std::memcpy(guard.data(), &header, sizeof header);
    if (damage.pick(2)) damage.bytes({guard.data() + sizeof header, header.bytes - sizeof header});
    if (damage.pick(4) == 0)
      damage.bytes({guard.data() + offsetof(TearHeader, bytes),
                    sizeof header - offsetof(TearHeader, bytes)});
    std::memcpy(&header, guard.data(), sizeof header);
    if (header.bytes > guard.size()) return;
    header.crc = 0;
    std::memcpy(guard.data(), &header, sizeof header);
    header.crc = crc32c(0, guard.data(), header.bytes);
    std::memcpy(guard.data(), &header, sizeof header);
  });
}

}  // namespace
}  // namespace ls::test
