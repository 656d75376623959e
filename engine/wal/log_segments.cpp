// log_segments.cpp - segments found, made, recycled and removed.
#include "wal/log_segments.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.hpp"

namespace ls {

namespace {

constexpr size_t kNameDigits = 16;
constexpr const char *kTemporarySuffix = ".new";
constexpr size_t kZeroChunk = 1 << 20;
// Segments kept ready behind the end: enough that a burst between two checkpoints rarely has to
// fill new ones.
constexpr u64 kMaxSpares = 4;

bool parse_name(const char *name, u64 *number) {
  if (std::strlen(name) != kNameDigits || std::strspn(name, "0123456789abcdef") != kNameDigits)
    return false;
  *number = std::strtoull(name, nullptr, 16);
  return true;
}

}  // namespace

std::string log_segment_path(const std::string &dir, u64 number) {
  char name[kNameDigits + 1];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(number));
  return dir + "/" + name;
}

Status log_segments_present(const std::string &dir, std::set<u64> &numbers) {
  numbers.clear();
  return directory_list(
      dir.c_str(),
      [](void *arg, const char *name) {
        u64 number;
        if (parse_name(name, &number)) static_cast<std::set<u64> *>(arg)->insert(number);
        return true;
      },
      &numbers);
}

Status log_segments_count(const char *dir, u64 *count) {
  *count = 0;
  return directory_list(
      dir,
      [](void *arg, const char *name) {
        u64 number;
        *static_cast<u64 *>(arg) += parse_name(name, &number);
        return true;
      },
      count);
}

LogSegments::LogSegments(const char *dir, u64 segment_bytes, bool fsync,
                         std::atomic<Lsn> *ready_until, Fill fill)
    : dir_(dir),
      segment_bytes_(segment_bytes),
      fsync_(fsync),
      fill_(fill),
      ready_until_(ready_until) {}

// The segments in one piece from that of *ready_until (or `from`) on.  set_mutex_ is held.
// Release: the files are there.
void LogSegments::publish_ready(u64 from) {
  u64 next = std::max(from, number_of(ready_until_->load(std::memory_order_relaxed)));
  while (present_.contains(next)) next++;
  ready_until_->store(next * segment_bytes_, std::memory_order_release);
}

void LogSegments::add_present(u64 number) {
  std::lock_guard lock(set_mutex_);
  present_.insert(number);
  publish_ready(0);
}

Status LogSegments::sync_directory() { return fsync_ ? directory_sync(dir_.c_str()) : kOk; }

Status LogSegments::open(Lsn lsn) {
  std::lock_guard make_lock(make_mutex_);
  if (mkdir(dir_.c_str(), 0700) == 0) {
    std::string parent = dir_.substr(0, dir_.rfind('/'));
    if (fsync_ && !parent.empty() && parent != dir_) LS_TRY(directory_sync(parent.c_str()));
  } else if (errno != EEXIST) {
    return fail_errno(errno, dir_.c_str(), "could not create log directory");
  }
  std::vector<std::string> temporary;
  LS_TRY(directory_list(
      dir_.c_str(),
      [](void *arg, const char *name) {
        std::string_view text(name);
        if (text.ends_with(kTemporarySuffix))
          static_cast<std::vector<std::string> *>(arg)->emplace_back(text);
        return true;
      },
      &temporary));
  for (const std::string &name : temporary) LS_TRY(file_unlink((dir_ + "/" + name).c_str()));
  std::set<u64> found;
  LS_TRY(log_segments_present(dir_, found));
  u64 current = number_of(lsn);
  for (auto it = found.begin(); it != found.end();) {
    u64 number = *it;
    if (number < current) {
      ++it;
      continue;
    }
    File file;
    u64 bytes;
    std::string path = log_segment_path(dir_, number);
    LS_TRY(file.open(path.c_str(), 0));
    LS_TRY(file.size(&bytes));
    if (bytes < segment_bytes_ && number == current) {
      LS_TRY(fill(file, bytes));
    } else if (bytes != segment_bytes_ && number > current) {
      LS_TRY(file_unlink(path.c_str()));
      it = found.erase(it);
      continue;
    }
    ++it;
  }
  {
    std::lock_guard set_lock(set_mutex_);
    present_ = found;
    ready_until_->store(0, std::memory_order_relaxed);
    publish_ready(current);
  }
  if (!exists(current)) LS_TRY(make(current));
  return sync_directory();
}

Status LogSegments::fill(File &file, u64 from) {
  bool done = false;
  if (fill_ == Fill::kAllocated) LS_TRY(file.allocate(segment_bytes_, &done));
  if (done) return fsync_ ? file.sync_data() : kOk;
  std::vector<u8> zeros(kZeroChunk, 0);
  while (from < segment_bytes_) {
    size_t n = static_cast<size_t>(std::min<u64>(kZeroChunk, segment_bytes_ - from));
    LS_TRY(file.write_at(from, zeros.data(), n));
    from += n;
  }
  return fsync_ ? file.sync_data() : kOk;
}

bool LogSegments::exists(u64 number) {
  std::lock_guard lock(set_mutex_);
  return present_.contains(number);
}

// make_mutex_ is held.
Status LogSegments::make(u64 number) {
  LS_ASSERT(!exists(number));
  std::string path = log_segment_path(dir_, number);
  std::string temporary = path + kTemporarySuffix;
  File file;
  LS_TRY(file.open(temporary.c_str(), O_CREAT | O_TRUNC));
  if (Status status = fill(file, 0); !ok(status)) {
    ls_error error = last_error();
    file.close();
    // gives the space back; the first failure is what matters
    (void)file_unlink(temporary.c_str());
    set_last_error(error);
    return status;
  }
  LS_TRY(file_rename(temporary.c_str(), path.c_str()));
  LS_TRY(sync_directory());
  add_present(number);
  return kOk;
}

Status LogSegments::ensure_number(u64 number) {
  if (exists(number)) return kOk;
  std::lock_guard lock(make_mutex_);
  if (exists(number)) return kOk;
  return make(number);
}

Status LogSegments::ensure(Lsn from, Lsn to) {
  for (u64 number = number_of(from); number <= number_of(to); number++)
    LS_TRY(ensure_number(number));
  return kOk;
}

bool LogSegments::has_spare(Lsn lsn) { return exists(number_of(lsn) + 1); }

Status LogSegments::make_spare(Lsn lsn) { return ensure_number(number_of(lsn) + 1); }

Status LogSegments::truncate(Lsn lsn, Lsn end) {
  LS_CHECK(lsn <= end, "truncating the log behind its end");
  std::lock_guard make_lock(make_mutex_);
  LS_ASSERT(exists(number_of(end)));   // SEG-1
  std::vector<u64> old;
  u64 last;
  {
    std::lock_guard lock(set_mutex_);
    old.assign(present_.begin(), present_.lower_bound(number_of(lsn)));
    last = *present_.rbegin();
  }
  for (u64 number : old) {
    std::string path = log_segment_path(dir_, number);
    bool recycle = last < number_of(end) + kMaxSpares;
    {
      // Out of the set first: when the call below fails the file is just left over and found at the
      // next open.
      std::lock_guard lock(set_mutex_);
      present_.erase(number);
    }
    if (!recycle) {
      LS_TRY(file_unlink(path.c_str()));
      continue;
    }
    LS_CHECK(!exists(last + 1), "a log segment was to be replaced");
    LS_TRY(file_rename(path.c_str(), log_segment_path(dir_, last + 1).c_str()));
    LS_TRY(sync_directory());  // before anything that counts is written under the new name
    add_present(++last);
  }
  return kOk;
}

}  // namespace ls
