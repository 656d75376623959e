// log_sink.cpp - the two sinks.
#include "wal/log_sink.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "wal/relay_files.hpp"

namespace ls {

namespace {

thread_local const ls_host_log *g_host_log = nullptr;

// Whole blocks, past the page cache.  A device writes a sector or does not, so the bytes before
// the round, which are there already, stay what they are.
class FileSink final : public LogSink {
 public:
  explicit FileSink(LogShared *shared)
      : state_(shared->round),
        files_(shared->config.dir, shared->config.segment_bytes, shared->config.fsync) {}

  u32 begin(Lsn lsn, LogBlocks *staging) override {
    const u32 before = lsn % kLogBlockBytes;
    staging->assign(before, 0);
    std::memcpy(staging->data(), state_.block, before);
    return before;
  }

  Status open(Lsn durable, Lsn end, Lsn to) override {
    return files_.open(std::min(durable, end - end % kLogBlockBytes), to);
  }

  // What is in the file already of the block in which the log goes on.
  Status resume() override {
    const Lsn end = state_.end.load(std::memory_order_relaxed);
    const u32 before = end % kLogBlockBytes;
    if (before == 0) return kOk;
    LogBlocks block(kLogBlockBytes);
    LS_TRY(files_.read_block(end - before, block.data()));
    std::memcpy(state_.block, block.data(), before);
    return kOk;
  }

  Status write(Lsn lsn, u32 before, LogBlocks *staging) override {
    const Lsn end = lsn + staging->size() - before;
    staging->resize((staging->size() + kLogBlockBytes - 1) / kLogBlockBytes * kLogBlockBytes);
    LS_TRY(files_.write(lsn - before, *staging));
    if (const u32 behind = end % kLogBlockBytes)
      std::memcpy(state_.block, staging->data() + staging->size() - kLogBlockBytes, behind);
    return kOk;
  }

  Status sync(Lsn from, LogMark to, u32 *syncs) override {
    return files_.sync(from, to.end, syncs);
  }

 private:
  RoundState &state_;
  LogFiles files_;
};

// RELAY-2 (relay_files.hpp) is the host's part: insert() returns when it may be written here.
class HostSink final : public LogSink {
 public:
  explicit HostSink(LogShared *shared)
      : state_(shared->round),
        buffer_(shared->relay()),
        files_(shared->config.dir, shared->config.segment_bytes) {}

  u32 begin(Lsn, LogBlocks *staging) override {
    staging->clear();
    return 0;
  }

  Status open(Lsn, Lsn end, Lsn to) override {
    return files_.open(buffer_.used > 0 ? buffer_.from : end, to);
  }

  Status resume() override { return kOk; }

  Status write(Lsn lsn, u32 before, LogBlocks *staging) override {
    LS_CHECK(before == 0 && g_host_log, "a thread that must not use the host's log writes to it");
    state_.host = g_host_log->insert(staging->data(), staging->size(), lsn);
    return files_.add(buffer_, lsn, *staging);
  }

  Status sync(Lsn, LogMark to, u32 *syncs) override {
    *syncs = 0;
    LS_CHECK(g_host_log, "a thread that must not use the host's log flushes it");
    if (to.host == 0 || g_host_log->flushed() >= to.host) return kOk;
    g_host_log->flush(to.host);
    *syncs = 1;
    return kOk;
  }

 private:
  RoundState &state_;
  RelayBuffer &buffer_;
  RelayFiles files_;
};

}  // namespace

const ls_host_log *host_log() { return g_host_log; }
void use_host_log(const ls_host_log *log) { g_host_log = log; }

std::unique_ptr<LogSink> make_log_sink(LogShared *shared) {
  if (shared->config.host_log) return std::make_unique<HostSink>(shared);
  return std::make_unique<FileSink>(shared);
}

}  // namespace ls
