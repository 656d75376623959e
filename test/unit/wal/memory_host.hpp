// memory_host.hpp - a host with its log in memory.  Its recovery begins at redo(), which moves by
// checkpoints.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "leanstore/engine.h"
#include "wal/log_sink.hpp"

namespace ls::test {

class MemoryHost {
 public:
  struct Record {
    bool values;
    ls_rel_key relation;   // of values; and their first page
    u64 position;          // of a round; or that page
    std::vector<u8> bytes;
    ls_prepared_bytes prepared;   // but for its bytes; full_xid 0: it is none
  };

  MemoryHost() { the_host = this; use(); }
  ~MemoryHost() { use_host_log(nullptr); the_host = nullptr; }
  MemoryHost(const MemoryHost &) = delete;
  MemoryHost &operator=(const MemoryHost &) = delete;

  void use() {
    static const ls_host_log functions{insert, flush, get_flushed, insert_values,
                                       insert_prepared, insert_places};
    use_host_log(&functions);
  }
  // Again, behind the end of another one.
  void come_back() { the_host = this; use(); }
  // Up to so many records.
  void flush_some(u64 to) {
    const std::lock_guard guard(mutex_);
    flush_locked(to);
  }
  void checkpoint() {
    const std::lock_guard guard(mutex_);
    redo_ = log_.size();
    flushed_ = redo_.load();
  }
  // What is flushed from now on is lost with the crash all the same.
  void lose_what_follows() { last_flushed_ = flushed_.load(); }
  // What is not flushed is lost.
  void crash() {
    const std::lock_guard guard(mutex_);
    log_.resize(std::min<u64>(flushed_, last_flushed_));
    flushed_ = log_.size();
    last_flushed_ = ~u64{0};
    inserted_since_ = ~u64{0};
  }
  const std::vector<Record> &log() const { return log_; }
  // Pages that were about to change on disk; and how many records there were before.
  struct Place {
    u64 at;
    ls_page_place page;
  };
  std::vector<Place> places_of(u64 from, u64 to) {
    const std::lock_guard guard(mutex_);
    std::vector<Place> found;
    for (const Place &place : places_)
      if (place.at >= from && place.at < to) found.push_back(place);
    return found;
  }
  u64 redo() const { return redo_; }
  u64 size() {
    const std::lock_guard guard(mutex_);
    return log_.size();
  }
  u64 flushed() const { return flushed_; }
  u64 flushes() const { return flushes_; }
  bool flushes_first = true;   // RELAY-2, the host's part
  std::function<void()> before_values;

 private:
  void flush_locked(u64 to) {
    flushed_ = std::max<u64>(flushed_, std::min<u64>(to, log_.size()));
  }
  static uint64_t insert(const void *bytes, size_t count, uint64_t position) {
    MemoryHost &host = *the_host;
    const std::lock_guard guard(host.mutex_);
    const u8 *begin = static_cast<const u8 *>(bytes);
    host.log_.push_back({false, {}, position, {begin, begin + count}, {}});
    if (host.flushes_first && host.inserted_since_ != host.redo_) host.flushed_ = host.log_.size();
    host.inserted_since_ = host.redo_;
    return host.log_.size();
  }
  static void insert_values(const ls_rel_key *relation, uint32_t page, const void *bytes,
                            size_t count) {
    if (the_host->before_values) the_host->before_values();
    const std::lock_guard guard(the_host->mutex_);
    const u8 *begin = static_cast<const u8 *>(bytes);
    the_host->log_.push_back({true, *relation, page, {begin, begin + count}, {}});
  }
  static void insert_prepared(const ls_prepared_bytes *bytes) {
    const std::lock_guard guard(the_host->mutex_);
    const u8 *begin = static_cast<const u8 *>(bytes->bytes);
    Record record{};
    record.bytes.assign(begin, begin + bytes->count);
    record.prepared = *bytes;
    the_host->log_.push_back(record);
  }
  // Without `durable` they may be lost with the round behind them; then they are too many.
  static void insert_places(const ls_page_place *places, size_t count, bool durable) {
    MemoryHost &host = *the_host;
    const std::lock_guard guard(host.mutex_);
    for (size_t i = 0; i < count; i++) host.places_.push_back({host.log_.size(), places[i]});
    if (durable) host.flushed_ = host.log_.size();
  }
  static void flush(uint64_t end) {
    the_host->flushes_++;
    the_host->flush_some(end);
  }
  static uint64_t get_flushed() { return the_host->flushed_; }

  static inline MemoryHost *the_host = nullptr;
  std::mutex mutex_;
  std::vector<Record> log_;
  std::vector<Place> places_;
  std::atomic<u64> redo_{0};
  u64 inserted_since_ = ~u64{0};
  std::atomic<u64> flushed_{0}, flushes_{0}, last_flushed_{~u64{0}};
};

}  // namespace ls::test
