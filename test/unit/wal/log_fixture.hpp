// log_fixture.hpp - a log in private memory and a directory of its own; records with contents that
// can be checked.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/fault.hpp"
#include "os/file.hpp"
#include "unit/os/temp_directory.hpp"
#include "unit/wal/log_image.hpp"
#include "wal/log.hpp"
#include "wal/log_segments.hpp"
#include "wal/log_slot.hpp"

namespace ls::test {

inline constexpr u64 kSegment = 1 << 20;
inline constexpr u32 kBuffer = 4 * kMaxRecordBytes;

// Payload that depends on its seed in every byte.
inline std::vector<u8> payload_of(u64 seed, size_t bytes) {
  std::vector<u8> payload(bytes);
  u64 x = seed * 0x9e3779b97f4a7c15 + 1;
  for (u8 &b : payload) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    b = static_cast<u8>(x);
  }
  return payload;
}

class TestLog {
 public:
  explicit TestLog(u32 slots = 8, u32 buffer_bytes = kBuffer, bool fsync = true) {
    file_setup(".", false, true, 256);  // another test may have turned syncing off
    config_.slots = slots;
    config_.buffer_bytes = buffer_bytes;
    config_.segment_bytes = kSegment;
    config_.fsync = fsync;
    std::snprintf(config_.dir, sizeof config_.dir, "%s/wal", directory_.path().c_str());
    restart_memory();
  }
  ~TestLog() {
    if (arena_) log().close_for_append();
    fault_clear();
  }
  TestLog(const TestLog &) = delete;
  TestLog &operator=(const TestLog &) = delete;

  // Everything in memory is gone, as after a crash.
  void restart_memory() {
    if (arena_) log().close_for_append();
    size_t bytes = (Log::arena_bytes(config_) + 4095) / 4096 * 4096;
    arena_.reset(std::aligned_alloc(4096, bytes));
    std::memset(arena_.get(), 0, bytes);
    Log::create(arena_.get(), config_);
  }
  // Read the log as recovery does and continue behind it.
  LogImage recover(Lsn from = 0) {
    LogImage image;
    EXPECT_TRUE(ok(read_log(dir().c_str(), kSegment, from, 0, image))) << last_error().message;
    restart_memory();
    EXPECT_TRUE(ok(log().open_for_append(image.end, image.max_gsn, image.run + 1)))
        << last_error().message;
    return image;
  }

  Log log() { return Log::attach(arena_.get()); }
  std::string dir() const { return config_.dir; }
  const std::string &outer_dir() const { return directory_.path(); }
  std::string segment_path(u64 number) const { return log_segment_path(config_.dir, number); }
  u64 round() {
    u64 wrote = 0;
    EXPECT_TRUE(ok(log().commit_round(&wrote))) << last_error().message;
    return wrote;
  }
  LogImage read(Lsn from = 0) {
    LogImage image;
    EXPECT_TRUE(ok(read_log(dir().c_str(), kSegment, from, 0, image))) << last_error().message;
    return image;
  }

 private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  TempDirectory directory_;
  LogConfig config_{};
  std::unique_ptr<void, Free> arena_;
};

// Append a kSystem record with one operation; its payload is payload_of(seed, bytes).
inline Gsn append(LogAppender &appender, u64 seed, size_t bytes) {
  std::vector<u8> payload = payload_of(seed, bytes);
  appender.start(RecordKind::kSystem);
  appender.op(1, static_cast<PageNo>(seed), kOpTree, payload);
  return appender.finish();
}

inline Gsn reserve_append(LogAppender &appender, u64 seed, size_t bytes) {
  EXPECT_TRUE(ok(
      appender.reserve(static_cast<u32>(bytes + kMaxRecordHeadBytes + kMaxOpHeadBytes), nullptr)));
  return append(appender, seed, bytes);
}

// A commit.  Room is reserved.
inline Gsn append_commit(LogAppender &appender, Tn tn) {
  appender.start(RecordKind::kCommit);
  appender.number(tn);
  return appender.finish();
}

// A worker that stands still when it has drawn a GSN and not published its record (LOG-1): nothing
// behind that is hardened.
class StalledAppend {
 public:
  StalledAppend(Log log, u32 slot) : slot_(log.slot(slot)) {
    const LogAppender owner(log, slot);   // from now on rounds look at the slot
    std::atomic<Gsn> &counter = log.shared()->counter;
    slot_->appending.store(counter.load() + 1);
    gsn_ = counter.fetch_add(1) + 1;
  }
  ~StalledAppend() { end(); }
  StalledAppend(const StalledAppend &) = delete;
  StalledAppend &operator=(const StalledAppend &) = delete;
  Gsn gsn() const { return gsn_; }
  // Without a record: its GSN stays unused.
  void end() { slot_->appending.store(0); }

 private:
  LogSlot *slot_;
  Gsn gsn_;
};

// The operations of a record.
inline std::vector<LogOp> ops_of(const LogEntry &entry) {
  std::vector<LogOp> ops;
  for (LogBytes left = entry.record().body; !left.empty();) {
    const char *wrong = load_op(&left, &ops.emplace_back());
    EXPECT_EQ(wrong, nullptr) << wrong << ", gsn " << entry.gsn;
    if (wrong) break;
  }
  return ops;
}

// What the record of `append` looks like.
inline ::testing::AssertionResult holds(const LogEntry &entry, u64 seed, size_t bytes) {
  if (entry.record().kind != RecordKind::kSystem)
    return ::testing::AssertionFailure() << "kind of gsn " << entry.gsn;
  const std::vector<LogOp> ops = ops_of(entry);
  if (ops.size() != 1 || ops[0].file != 1 || ops[0].page != static_cast<PageNo>(seed) ||
      ops[0].code != kOpTree) {
    return ::testing::AssertionFailure() << "operation of gsn " << entry.gsn;
  }
  const std::vector<u8> payload = payload_of(seed, bytes);
  if (!std::equal(payload.begin(), payload.end(), ops[0].operands.begin(), ops[0].operands.end())) {
    return ::testing::AssertionFailure() << "payload of gsn " << entry.gsn;
  }
  return ::testing::AssertionSuccess();
}

inline std::vector<Gsn> gsns(const LogImage &image) {
  std::vector<Gsn> result;
  for (const LogEntry &entry : image.entries) result.push_back(entry.gsn);
  return result;
}

// A byte range of a file, for tests that damage it.
inline std::vector<u8> load(const std::string &path, u64 offset, size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::vector<u8> data(bytes);
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char *>(data.data()), static_cast<std::streamsize>(bytes));
  EXPECT_EQ(in.gcount(), static_cast<std::streamsize>(bytes));
  return data;
}
inline void store(const std::string &path, u64 offset, const std::vector<u8> &data) {
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(static_cast<std::streamoff>(offset));
  out.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size()));
  EXPECT_TRUE(out.flush().good());
}

}  // namespace ls::test
