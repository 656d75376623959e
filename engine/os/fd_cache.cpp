// fd_cache.cpp - the cache of a process: opening, counting uses, closing the least recently used.
#include "os/fd_cache.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "os/sys_calls.hpp"

namespace ls {

namespace {

constexpr u32 kMinFds = 8;

char g_root[512] = ".";
bool g_direct = false;
u32 g_max_fds = 256;

struct SegmentKey {
  FileNo file_no;
  u32 segment;
  bool operator==(const SegmentKey &) const = default;
};

struct SegmentHash {
  size_t operator()(const SegmentKey &key) const { return key.file_no * 31 + key.segment; }
};

struct Cache {
  struct Entry {
    SegmentKey key;
    SegmentRef segment;
  };
  std::mutex mutex;
  std::list<Entry> by_use;  // front: most recent
  std::unordered_map<SegmentKey, std::list<Entry>::iterator, SegmentHash> by_key;

  SegmentRef find(const SegmentKey &key) {
    auto it = by_key.find(key);
    if (it == by_key.end()) return nullptr;
    by_use.splice(by_use.begin(), by_use, it->second);
    return it->second->segment;
  }
  // `made`: the segment alone.  All of it or nothing, should there be no memory.
  void add(std::list<Entry> &made) {
    by_key[made.front().key] = made.begin();
    by_use.splice(by_use.begin(), made);
  }
  // To `taken`; closed by the thread that drops the last reference.
  void take(std::list<Entry>::iterator entry, std::list<Entry> *taken) {
    by_key.erase(entry->key);
    taken->splice(taken->begin(), by_use, entry);
  }
  // Without the least recently used.
  void shrink_to(size_t most, std::list<Entry> *taken) {
    while (by_use.size() > most) take(std::prev(by_use.end()), taken);
  }
};

// Null until first use in this process.
std::atomic<Cache *> g_cache{nullptr};

// Only the pointer: the memory and descriptors the child inherited are few, and its parent's mutex
// may be locked.
void forget_after_fork() { g_cache.store(nullptr, std::memory_order_relaxed); }

Cache &cache() {
  // Acquire pairs with the exchange below.
  Cache *c = g_cache.load(std::memory_order_acquire);
  if (c) return *c;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_after_fork);
  (void)registered;
  Cache *fresh = new Cache;
  if (g_cache.compare_exchange_strong(c, fresh, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
    return *fresh;
  delete fresh;
  return *c;
}

// Close half of the cache: the process or the system ran out of descriptors.
void shrink(Cache &c) {
  std::list<Cache::Entry> dropped;
  std::lock_guard lock(c.mutex);
  c.shrink_to(c.by_use.size() / 2, &dropped);
}

int open_with(Cache &c, const char *path, int flags) {
  int fd = sys_open(path, flags);
  if (fd >= 0 || (errno != EMFILE && errno != ENFILE)) return fd;
  shrink(c);
  return sys_open(path, flags);
}

Status open_segment(Cache &c, const FileRef &file, u32 segment, SegmentOpen mode, SegmentRef *out) {
  SegmentPath path(file, segment);
  int flags = O_RDWR | (mode == SegmentOpen::kCreate ? O_CREAT : 0);
  bool direct = g_direct && !(file.file_no & kFurtherFile);
  auto opened = std::make_shared<OpenSegment>();
  int fd = open_with(c, path.text, direct ? flags | O_DIRECT : flags);
  if (fd < 0 && errno == EINVAL && direct) {  // the file system has no direct I/O
    direct = false;
    fd = open_with(c, path.text, flags);
  }
  if (fd < 0) {
    int error = errno;
    // A dropped database takes the directory along; a file in its place is no file of ours.
    if (error == ENOENT || error == ENOTDIR)
      return fail(LS_NOT_FOUND, "file \"%s\" does not exist", path.text);
    return fail_errno(error, path.text, "could not open relation file");
  }
  opened->set(fd, direct);
  *out = std::move(opened);
  return kOk;
}

}  // namespace

OpenSegment::~OpenSegment() {
  if (fd_ >= 0) close(fd_);
}

SegmentPath::SegmentPath(const FileRef &file, u32 segment) {
  if (segment == 0) {
    std::snprintf(text, sizeof text, "%s/%s", g_root, file.path);
  } else {
    std::snprintf(text, sizeof text, "%s/%s.%u", g_root, file.path, segment);
  }
}

void fd_cache_setup(const char *root_dir, bool direct_io, u32 max_fds) {
  std::snprintf(g_root, sizeof g_root, "%s", root_dir);
  g_direct = direct_io;
  g_max_fds = max_fds < kMinFds ? kMinFds : max_fds;
  // Another store gives the same numbers to other files.
  Cache &c = cache();
  std::lock_guard lock(c.mutex);
  c.by_use.clear();
  c.by_key.clear();
}

bool fd_cache_direct() { return g_direct; }

const char *fd_cache_root() { return g_root; }

namespace {

Status get(const FileRef &file, u32 segment, SegmentOpen mode, SegmentRef *out) {
  Cache &c = cache();
  const SegmentKey key{file.file_no, segment};
  {
    std::lock_guard lock(c.mutex);
    if ((*out = c.find(key))) return kOk;
  }
  SegmentRef opened;  // opened outside the mutex: it is a system call that may block
  LS_TRY(open_segment(c, file, segment, mode, &opened));
  std::list<Cache::Entry> made, dropped;
  made.push_front({key, opened});
  {
    std::lock_guard lock(c.mutex);
    if ((*out = c.find(key))) return kOk;  // another thread was faster; `opened` closes
    c.add(made);
    c.shrink_to(g_max_fds, &dropped);
  }
  *out = std::move(opened);
  return kOk;
}

}  // namespace

// Page writes must not meet an exception in the middle.
Status fd_cache_get(const FileRef &file, u32 segment, SegmentOpen mode, SegmentRef *out) {
  return with_memory([&] { return get(file, segment, mode, out); });
}

void fd_cache_forget(FileNo file_no) {
  if (!g_cache.load(std::memory_order_acquire)) return;  // nothing was opened by this process
  Cache &c = cache();
  std::list<Cache::Entry> dropped;
  std::lock_guard lock(c.mutex);
  for (auto it = c.by_use.begin(); it != c.by_use.end();) {
    const auto entry = it++;
    const bool same = (entry->key.file_no & ~kFurtherFile) == (file_no & ~kFurtherFile);
    if (same) c.take(entry, &dropped);
  }
}

u32 fd_cache_size() {
  Cache &c = cache();
  std::lock_guard lock(c.mutex);
  return static_cast<u32>(c.by_use.size());
}

}  // namespace ls
