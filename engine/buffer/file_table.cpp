// Opening, finding and forgetting relation files.
//
// The table mutex guards the hash chains and the choice of a slot; it is never held across I/O or waits.  While a slot is
// kOpening it belongs to its opener; others who want the same key wait for open_event.
// A crash needs no care here: the table is rebuilt from nothing at each start.
#include "buffer/file_table.hpp"

#include <cstring>
#include <mutex>
#include <vector>

#include "base/check.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/pool.hpp"
#include "buffer/waiting_changes.hpp"
#include "os/clock.hpp"

namespace ls {

namespace {

constexpr i64 kOpenSliceUs = 20'000;
// A full table with dropped files in it: how long to wait for the page providers to clear them.
constexpr u64 kSlotWaitMs = 5'000;
constexpr i64 kWriteSliceUs = 10'000;
// Of every file: its meta page and its root, which together are a block of the host's.
constexpr u32 kFirstPages = 2;

bool same_key(const ls_rel_key &a, const ls_rel_key &b) {
  return a.tablespace == b.tablespace && a.database == b.database && a.relation == b.relation && a.owner == b.owner;
}

std::atomic<u32> &head_of(PoolShared &pool, const ls_rel_key &key) {
  u64 h = (u64{key.tablespace} << 32 | key.database) * 0x9e3779b97f4a7c15ull;
  h = (h ^ key.relation ^ u64{static_cast<u32>(key.owner)} << 32) * 0xbf58476d1ce4e5b9ull;
  return pool.file_heads[(h >> 40) & pool.file_mask];
}

FileSlot *find_locked(PoolShared &pool, const ls_rel_key &key) {
  for (u32 link = head_of(pool, key).load(std::memory_order_relaxed); link;) {
    FileSlot &slot = pool.files[link - 1];
    if (same_key(slot.key, key)) return &slot;
    link = slot.next_in_bucket.load(std::memory_order_relaxed);
  }
  return nullptr;
}

void unlink_locked(PoolShared &pool, FileSlot &slot) {
  std::atomic<u32> *place = &head_of(pool, slot.key);
  while (place->load(std::memory_order_relaxed) != slot.index + 1) {
    u32 link = place->load(std::memory_order_relaxed);
    LS_CHECK(link != 0, "file slot is not in its chain");
    place = &pool.files[link - 1].next_in_bucket;
  }
  place->store(slot.next_in_bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// An unused slot, the one unused for longest; null when there is none.
FileSlot *unused_locked(PoolShared &pool) {
  for (u32 i = 0; i < pool.max_files; i++) {
    FileSlot &slot = pool.files[(pool.slot_cursor + i) % pool.max_files];
    if (!file_is(slot, FileState::kUnused)) continue;
    pool.slot_cursor = (slot.index + 1) % pool.max_files;
    return &slot;
  }
  return nullptr;
}

struct Opening {
  const ls_rel_key &key;
  const char *path;
  ls_rel_kind kind;
  bool logged;
  FileNo file_no;  // 0: draw one
};

void begin_opening_locked(PoolShared &pool, FileSlot &slot, const Opening &o) {
  slot.key = o.key;
  // The index cleaner looks at slots without holding them: it may see the kind of one that is just being taken.
  __atomic_store_n(&slot.kind, static_cast<u8>(o.kind), __ATOMIC_RELAXED);
  slot.logged = o.logged;
  std::strcpy(slot.path, o.path);
  FileNo file_no = o.file_no;
  FileNo next = pool.next_file_no.load(std::memory_order_relaxed);
  if (file_no == 0) file_no = next;
  if (file_no >= next) pool.next_file_no.store(file_no + 1, std::memory_order_relaxed);
  slot.file_no.store(file_no, std::memory_order_relaxed);
  for (auto *word : {&slot.next_row_id, &slot.row_id_reserved, &slot.row_id_reserved_gsn, &slot.row_id_durable,
                     &slot.rows_gone}) {
    word->store(0, std::memory_order_relaxed);
  }
  slot.table_no.store(0, std::memory_order_relaxed);
  slot.pages_allocated.store(0, std::memory_order_relaxed);
  slot.reuse.reset();
  // Release: whoever sees the state sees the rest.
  slot.state.store(FileState::kOpening, std::memory_order_release);
  std::atomic<u32> &head = head_of(pool, o.key);
  slot.next_in_bucket.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  head.store(slot.index + 1, std::memory_order_relaxed);
}

struct FileName {
  FileRecord record;
  char path[sizeof(FileSlot::path)];
};

FileName name_of(const FileSlot &slot) {
  FileName name{};
  name.record = FileRecord{slot.file_no.load(std::memory_order_relaxed), slot.key.tablespace, slot.key.database,
                           slot.key.relation, slot.key.owner, slot.kind, slot.logged,
                           static_cast<u16>(std::strlen(slot.path)), 0};
  std::memcpy(name.path, slot.path, sizeof name.path);
  return name;
}

Status log_file(Ctx &ctx, const FileName &name) {
  if (!ctx.log) return fail(LS_INVALID, "a worker without log opened the logged file \"%s\"", name.path);
  u32 bytes = static_cast<u32>(kMaxRecordHeadBytes + sizeof(FileRecord) + sizeof name.path);
  LS_TRY(ctx.log->reserve(bytes, ctx.interrupt));
  ctx.log->start(RecordKind::kFile);
  ctx.log->raw({reinterpret_cast<const u8 *>(&name.record), sizeof name.record});
  ctx.log->raw({reinterpret_cast<const u8 *>(name.path), name.record.path_bytes});
  ctx.log->finish();
  return kOk;
}

Status load_meta(BufferPool &pool, Ctx &ctx, FileSlot &slot, bool recovering, bool *absent) {
  u32 pages;
  LS_TRY(file_pages(slot.ref(), &pages));
  slot.pages_allocated.store(pages, std::memory_order_relaxed);
  Frame *frame;
  LS_TRY(load_or_zero(pool, ctx, slot, kMetaPageNo, &frame, absent));
  auto *meta = reinterpret_cast<MetaPage *>(pool.page(frame));
  const bool good = !*absent && is_meta(pool.page(frame), slot.kind);
  const bool foreign = good && meta->store != pool.shared()->store;
  const char *fault = good ? page_fault(pool.page(frame), kMetaPageNo, pool.log().last_gsn())
                           : "not the meta page of such a file";
  if (good && !foreign && meta->magic == kClaimMagic) {
    std::memset(static_cast<void *>(meta), 0, kPageSize);
    *absent = true;
  }
  // Absent: the file is empty, or was claimed or only extended when a crash came before its first
  // page was written.  During recovery redo fills the page, or its end closes the file again.
  bool use = *absent ? recovering : !foreign && !fault;
  if (use) {
    take_meta(slot, *meta);
    frame->state.store(FrameState::kHot, std::memory_order_release);
    slot.meta.store(frame, std::memory_order_release);
    frame->latch.unlock_exclusive();
    return kOk;
  }
  frame->latch.unlock_exclusive();
  release_frame(*pool.shared(), frame);
  if (foreign) return fail_path(LS_FOREIGN, slot.path, "its file belongs to another store");
  return *absent ? kOk : fail_page(slot.path, kMetaPageNo, "%s", fault);
}

// Whose the file is must not be known by the log alone: were it lost, a file of which nothing else
// has been written would pass for an empty one.  Not synced: it is not needed as long as the log is
// there.
Status claim(const BufferPool &pool, FileSlot &slot) {
  alignas(kPageSize) u8 page[kPageSize];
  page_claim(page, slot.kind, pool.shared()->store);
  LS_TRY(file_extend(slot.ref(), kFirstPages));
  return file_write_page(slot.ref(), kMetaPageNo, page);
}

Status open_contents(BufferPool &pool, Ctx &ctx, FileSlot &slot, const Opening &o, BufferPool::FormatTree format) {
  bool recovering = o.file_no != 0;
  // Named in the log before any record can refer to it.
  if (slot.logged && !recovering) LS_TRY(log_file(ctx, name_of(slot)));
  bool absent;
  LS_TRY(load_meta(pool, ctx, slot, recovering, &absent));
  if (!absent || recovering) return kOk;
  if (slot.logged) LS_TRY(claim(pool, slot));
  LS_TRY(format(ctx, slot));
  Frame *frame = slot.meta.load(std::memory_order_acquire);
  LS_CHECK(frame != pool.shared()->empty_meta(), "formatting a tree set no meta page");
  take_meta(slot, *reinterpret_cast<MetaPage *>(pool.page(frame)));
  return kOk;
}

void leave_opening(PoolShared &pool) {
  pool.open_event.fetch_add(1, std::memory_order_release);
  futex_wake_all(&pool.open_event);
}

// The slot's file is no more: from here on nobody opens, reads or writes it.
void forget_slot_locked(PoolShared &pool, FileSlot &slot) {
  unlink_locked(pool, slot);
  pool.active_files.fetch_sub(1, std::memory_order_relaxed);
  pool.forgotten.fetch_add(1, std::memory_order_relaxed);
  slot.state.store(FileState::kForgotten, std::memory_order_seq_cst);
}

// After forget_slot_locked, without the mutex.
void forget_rest(PoolShared &pool, FileSlot &slot, FileNo file_no) {
  // The host is about to unlink or truncate: a write still under way would meet the name's next file.
  for (;;) {
    u32 writes = slot.writes.load(std::memory_order_seq_cst);
    if (writes == 0 || slot.file_no.load(std::memory_order_relaxed) != file_no) break;
    futex_wait(&slot.writes, writes, kWriteSliceUs);
  }
  file_forget(file_no);
  finish_forgotten(pool, slot);
  wake_providers(pool);
}

}  // namespace

void take_meta(FileSlot &file, const MetaPage &meta) {
  file.next_row_id.store(meta.row_id_high, std::memory_order_relaxed);
  file.row_id_reserved.store(meta.row_id_high, std::memory_order_relaxed);
  file.row_id_durable.store(meta.row_id_high, std::memory_order_relaxed);
  file.stale_entries.store(meta.stale_entries != 0, std::memory_order_relaxed);
}

bool pin_file(FileSlot &file, FileNo file_no) {
  // Sequentially consistent with forget: it sees the pin, or we see the state.
  file.writes.fetch_add(1, std::memory_order_seq_cst);
  if (file.state.load(std::memory_order_seq_cst) == FileState::kActive &&
      file.file_no.load(std::memory_order_relaxed) == file_no) {
    return true;
  }
  unpin_file(file);
  return false;
}

void unpin_file(FileSlot &file) {
  if (file.writes.fetch_sub(1, std::memory_order_seq_cst) == 1 && !file_is(file, FileState::kActive)) {
    futex_wake_all(&file.writes);
  }
}

void finish_forgotten(PoolShared &pool, FileSlot &file) {
  if (!file_is(file, FileState::kForgotten) || file.frames.load(std::memory_order_seq_cst) != 0) return;
  FileNo file_no;
  {
    std::lock_guard lock(pool.table_mutex);
    if (!file_is(file, FileState::kForgotten)) return;
    if (file.frames.load(std::memory_order_seq_cst) != 0 || file.writes.load(std::memory_order_seq_cst) != 0) return;
    file_no = file.file_no.load(std::memory_order_relaxed);
    file.meta.store(pool.empty_meta(), std::memory_order_release);
    file.file_no.store(0, std::memory_order_relaxed);
    file.state.store(FileState::kUnused, std::memory_order_release);
    pool.forgotten.fetch_sub(1, std::memory_order_relaxed);
  }
  file_forget(file_no);  // this process' descriptors: the last one frees the disk space
  drop_waiting(pool, file_no);
  leave_opening(pool);
}

FileSlot *BufferPool::find_file(const ls_rel_key &key) const {
  std::lock_guard lock(shared_->table_mutex);
  FileSlot *slot = find_locked(*shared_, key);
  return slot && file_is(*slot, FileState::kActive) ? slot : nullptr;
}

Status BufferPool::open_file(Ctx &ctx, const ls_rel_key &key, const char *path, ls_rel_kind kind, bool logged,
                             FileNo file_no, FormatTree format, FileSlot **out) {
  if (std::strlen(path) >= sizeof(FileSlot::path)) return fail(LS_INVALID, "path is too long: \"%.100s...\"", path);
  Opening opening{key, path, kind, logged, file_no};
  FileSlot *slot = nullptr;
  u64 deadline = now_ms() + kSlotWaitMs;
  for (bool ours = false, may_clear = false; !ours;) {
    u32 event = shared_->open_event.load(std::memory_order_acquire);
    {
      std::lock_guard lock(shared_->table_mutex);
      slot = find_locked(*shared_, key);
      if (slot && file_is(*slot, FileState::kActive)) {
        *out = slot;
        return kOk;
      }
      if (!slot && (slot = unused_locked(*shared_))) {
        begin_opening_locked(*shared_, *slot, opening);
        shared_->active_files.fetch_add(1, std::memory_order_relaxed);
        ours = true;
      }
      // Under the mutex: a slot that becomes unused right behind it is no reason to give up.
      may_clear = slot || shared_->forgotten.load(std::memory_order_relaxed) > 0;
    }
    if (ours) break;
    if (!may_clear || (!slot && now_ms() > deadline)) {
      return fail(LS_LIMIT, "the table of open files (%u) is full; raise max_open_files", shared_->max_files);
    }
    if (ctx.interrupt && *ctx.interrupt) return fail(LS_INTERRUPTED, "interrupted while waiting to open \"%s\"", path);
    wake_providers(*shared_);
    futex_wait_interruptible(&shared_->open_event, event, kOpenSliceUs);
  }
  // Whatever happens: others wait for the slot to leave this state.
  const Status status = with_memory([&] { return open_contents(*this, ctx, *slot, opening, format); });
  FileNo number = slot->file_no.load(std::memory_order_relaxed);
  if (ok(status)) {
    slot->state.store(FileState::kActive, std::memory_order_release);
    *out = slot;
  } else {
    // Frames that formatting has left behind go as those of a dropped file do.
    ls_error error = last_error();
    {
      std::lock_guard lock(shared_->table_mutex);
      forget_slot_locked(*shared_, *slot);
    }
    forget_rest(*shared_, *slot, number);
    set_last_error(error);
  }
  leave_opening(*shared_);
  return status;
}

void BufferPool::forget_file(const ls_rel_key &key) {
  for (;;) {
    u32 event = shared_->open_event.load(std::memory_order_acquire);
    FileSlot *slot;
    FileNo file_no = 0;
    bool opening = false;
    {
      std::lock_guard lock(shared_->table_mutex);
      slot = find_locked(*shared_, key);
      if (!slot) return;
      opening = file_is(*slot, FileState::kOpening);
      file_no = slot->file_no.load(std::memory_order_relaxed);
      if (!opening) forget_slot_locked(*shared_, *slot);
    }
    if (!opening) {
      forget_rest(*shared_, *slot, file_no);
      return;
    }
    futex_wait(&shared_->open_event, event, kOpenSliceUs);
  }
}

std::vector<ls_rel_key> BufferPool::keys_of(u32 database) const {
  std::vector<ls_rel_key> keys;
  std::lock_guard lock(shared_->table_mutex);
  for (u32 i = 0; i < shared_->max_files; i++) {
    FileSlot &slot = shared_->files[i];
    FileState state = slot.state.load(std::memory_order_acquire);
    if ((state == FileState::kActive || state == FileState::kOpening) && slot.key.database == database) {
      keys.push_back(slot.key);
    }
  }
  return keys;
}

void BufferPool::forget_database(u32 database) {
  for (const ls_rel_key &key : keys_of(database)) forget_file(key);
}

Status BufferPool::log_files(Ctx &ctx) {
  std::vector<FileName> names;
  {
    std::lock_guard lock(shared_->table_mutex);
    for (u32 i = 0; i < shared_->max_files; i++) {
      FileSlot &slot = shared_->files[i];
      // Those being opened as well: their own record may lie before the checkpoint.
      FileState state = slot.state.load(std::memory_order_acquire);
      if ((state == FileState::kActive || state == FileState::kOpening) && slot.logged) names.push_back(name_of(slot));
    }
  }
  for (const FileName &name : names) LS_TRY(log_file(ctx, name));
  return kOk;
}

u32 BufferPool::active_files() const { return shared_->active_files.load(std::memory_order_relaxed); }

void BufferPool::set_next_file_no(FileNo file_no) {
  std::lock_guard lock(shared_->table_mutex);
  if (file_no > shared_->next_file_no.load(std::memory_order_relaxed)) {
    shared_->next_file_no.store(file_no, std::memory_order_relaxed);
  }
}

FileNo BufferPool::next_file_no() const { return shared_->next_file_no.load(std::memory_order_relaxed); }

}  // namespace ls
