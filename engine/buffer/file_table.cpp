// Opening, finding and forgetting relation files.
//
// The table mutex guards the hash chains and the choice of a slot; it is never held across I/O or
// waits.  While a slot is kOpening it belongs to its opener; workers that want the same key wait
// for open_event.  A crash needs no care here: the table is rebuilt from nothing at each start.
#include "buffer/file_table.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/closed_file.hpp"
#include "buffer/followed_pages.hpp"
#include "buffer/insist.hpp"
#include "buffer/page_allocator.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/pool.hpp"
#include "buffer/sealed_files.hpp"
#include "os/clock.hpp"
#include "os/host_watch.hpp"

namespace ls {

namespace {

constexpr i64 kOpenSliceUs = 20'000;
// A full table: how long to wait until a file is closed, or one that was dropped is cleared out.
constexpr u64 kSlotWaitMs = 5'000, kRedoSlotWaitMs = 200;
// Where a thread closes files, so many places are for rollbacks: they cannot be refused, and each
// uses one file at a time.  The closer keeps one in so many places free besides.
constexpr u32 kFreeShare = 64;
constexpr u32 kMostReserved = 16, kReservedShare = 8;
constexpr i64 kWriteSliceUs = 10'000;
// Of every file: its meta page and its root, which together are a block of the host's.
constexpr u32 kFirstPages = 2;

bool same_key(const ls_rel_key &a, const ls_rel_key &b) {
  return a.tablespace == b.tablespace && a.database == b.database && a.relation == b.relation &&
         a.owner == b.owner;
}

std::atomic<u32> &head_of(PoolShared &pool, const ls_rel_key &key) {
  u64 h = (u64{key.tablespace} << 32 | key.database) * 0x9e3779b97f4a7c15ull;
  h = (h ^ key.relation ^ u64{static_cast<u32>(key.owner)} << 32) * 0xbf58476d1ce4e5b9ull;
  return pool.file_heads[(h >> 40) & pool.file_mask];
}

FileSlot *find_locked(PoolShared &pool, const ls_rel_key &key) {
  LS_ASSERT(pool.table_mutex.is_locked());
  for (u32 link = head_of(pool, key).load(std::memory_order_relaxed); link;) {
    FileSlot &slot = pool.files[link - 1];
    if (same_key(slot.key, key)) return &slot;
    link = slot.next_in_bucket.load(std::memory_order_relaxed);
  }
  return nullptr;
}

void unlink_locked(PoolShared &pool, FileSlot &slot) {
  LS_ASSERT(pool.table_mutex.is_locked());
  std::atomic<u32> *place = &head_of(pool, slot.key);
  while (place->load(std::memory_order_relaxed) != slot.index + 1) {
    u32 link = place->load(std::memory_order_relaxed);
    LS_CHECK(link != 0, "file slot is not in its chain");
    place = &pool.files[link - 1].next_in_bucket;
  }
  place->store(slot.next_in_bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// Places that relations cannot have, for trees of the store's own need them.
u32 own_left(const PoolShared &pool) {
  return pool.own_files - std::min(pool.own_files, pool.own_open);
}

u32 reserved_places(const PoolShared &pool) {
  if (pool.has_closer.load(std::memory_order_relaxed) == 0) return 0;
  return std::min(kMostReserved, (pool.max_files - pool.own_files) / kReservedShare);
}

// Is there a place for a file? own: of the store.
bool has_place_locked(const PoolShared &pool, bool own, bool must_open) {
  const u32 open = pool.active_files.load(std::memory_order_relaxed);
  const u32 taken = open + pool.leaving.load(std::memory_order_relaxed);
  const u32 reserved = must_open ? 0 : reserved_places(pool);
  const u32 kept = own ? 0 : own_left(pool) + reserved;
  return taken + kept < pool.max_files;
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

}  // namespace

struct Opening {
  const ls_rel_key &key;
  const char *path;
  ls_rel_kind kind;
  bool logged;
  FileNo file_no = 0;    // recovery's; 0: draw one, or the one that it had when it was closed
  FileNo expected = 0;   // not 0: the file that had this number when it was closed, or none
};

namespace {

FileNo draw_locked(PoolShared &pool) {
  LS_ASSERT(pool.table_mutex.is_locked());
  const FileNo next = pool.next_file_no.load(std::memory_order_relaxed);
  pool.next_file_no.store(next + 1, std::memory_order_relaxed);
  return next;
}

void note_used(PoolShared &pool, FileSlot &slot) {
  const u64 now = pool.use_clock.fetch_add(1, std::memory_order_relaxed) + 1;
  slot.last_used.store(now, std::memory_order_relaxed);
}

void begin_opening_locked(PoolShared &pool, FileSlot &slot, const Opening &o) {
  LS_ASSERT(slot.meta.load(std::memory_order_relaxed) == pool.empty_meta() && !slot.dropping);
  slot.key = o.key;
  // The index cleaner looks at slots without holding them: it may see the kind of one that is just
  // being taken.
  __atomic_store_n(&slot.kind, static_cast<u8>(o.kind), __ATOMIC_RELAXED);
  slot.logged = o.logged;
  std::strcpy(slot.path, o.path);
  const FileNo file_no = o.file_no ? o.file_no : draw_locked(pool);
  if (file_no >= pool.next_file_no.load(std::memory_order_relaxed)) {
    pool.next_file_no.store(file_no + 1, std::memory_order_relaxed);
  }
  slot.file_no.store(file_no, std::memory_order_relaxed);
  note_used(pool, slot);
  if (is_own(slot)) pool.own_open++;
  for (auto *word : {&slot.next_row_id, &slot.row_id_reserved, &slot.row_id_reserved_gsn,
                     &slot.row_id_durable, &slot.rows_gone, &slot.rows_gone_swept}) {
    word->store(0, std::memory_order_relaxed);
  }
  slot.table_no.store(0, std::memory_order_relaxed);
  slot.pages_allocated.store(0, std::memory_order_relaxed);
  slot.meta_torn.store(false, std::memory_order_relaxed);
  slot.rereference.reset();
  slot.values.reset();
  // Release: an actor that looks at a slot and sees the state sees the rest.
  slot.state.store(FileState::kOpening, std::memory_order_release);
  std::atomic<u32> &head = head_of(pool, o.key);
  slot.next_in_bucket.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  head.store(slot.index + 1, std::memory_order_relaxed);
}

ClosedFile name_of(const FileSlot &slot) {
  ClosedFile name{};
  name.record = FileRecord{slot.file_no.load(std::memory_order_relaxed),
                           slot.key.tablespace,
                           slot.key.database,
                           slot.key.relation,
                           slot.key.owner,
                           slot.kind,
                           slot.logged,
                           static_cast<u16>(std::strlen(slot.path)),
                           0};
  std::memcpy(name.path, slot.path, sizeof name.path);
  return name;
}

Status log_file(Ctx &ctx, const ClosedFile &name) {
  if (!ctx.log)
    return fail(LS_INVALID, "a worker without log opened the logged file \"%s\"", name.path);
  u32 bytes = static_cast<u32>(kMaxRecordHeadBytes + sizeof(FileRecord) + sizeof name.path);
  LS_TRY(ctx.log->reserve(bytes, ctx.interrupt));
  ctx.log->start(RecordKind::kFile);
  ctx.log->raw({reinterpret_cast<const u8 *>(&name.record), sizeof name.record});
  ctx.log->raw({reinterpret_cast<const u8 *>(name.path), name.record.path_bytes});
  ctx.log->finish();
  return kOk;
}

// Of a page with a wrong checksum.  What tells does not tear: it lies within the first sector.
bool is_torn_meta(const FileSlot &slot, const StoreId &store) {
  alignas(kPageSize) u8 page[kPageSize];
  if (!ok(file_read_page(slot.ref(), kMetaPageNo, page)) || !is_meta(page, slot.kind)) return false;
  const auto &meta = *reinterpret_cast<const MetaPage *>(page);
  return meta.store == store && meta.header.page_no == kMetaPageNo;
}

Status load_meta(BufferPool &pool, Ctx &ctx, FileSlot &slot, bool recovering, bool *absent) {
  u32 pages;
  LS_TRY(file_pages(slot.ref(), &pages));
  slot.pages_allocated.store(pages / 2 * 2, std::memory_order_relaxed);
  Frame *frame;
  *absent = pages == 0;
  Status status = *absent ? load_zero(ctx, slot, kMetaPageNo, &frame)
                          : load_or_zero(pool, ctx, slot, kMetaPageNo, &frame, absent);
  if (code(status) == LS_CORRUPT && recovering && is_torn_meta(slot, pool.shared()->store)) {
    status = load_zero(ctx, slot, kMetaPageNo, &frame);
    *absent = true;
    slot.meta_torn.store(true, std::memory_order_relaxed);
  }
  LS_TRY(status);
  auto *meta = reinterpret_cast<MetaPage *>(pool.page(frame));
  const bool good = !*absent && is_meta(pool.page(frame), slot.kind);
  const bool foreign = good && meta->store != pool.shared()->store;
  const char *fault = good ? read_fault(pool.page(frame), kMetaPageNo, pool.log().last_gsn())
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
    // One that ends in a block, as earlier versions have left some, does no more (PLACE-4); without
    // space a later write sees to it.
    if (slot.logged) {
      [[maybe_unused]] const Status ignored = grow_file(slot, pages);
    }
    return kOk;
  }
  frame->latch.unlock_exclusive();
  release_frame(*pool.shared(), frame);
  if (foreign) return fail_path(LS_FOREIGN, slot.path, "its file belongs to another store");
  return *absent ? kOk : fail_page(slot.path, kMetaPageNo, "%s", fault);
}

// To which store a file belongs that is logged must not be known by the log alone: were it lost, a
// file of which nothing else has been written would pass for an empty one.  Not synced: it is not
// needed as long as the log is there.
Status begin_file(const BufferPool &pool, FileSlot &slot) {
  static_assert(kMetaPageNo == 0);
  alignas(64) u8 pages[kFirstPages * kPageSize] = {};
  if (slot.logged) page_claim(pages, slot.kind, pool.shared()->store);
  LS_TRY(file_begin(slot.ref(), pages));
  const u32 have = slot.pages_allocated.load(std::memory_order_relaxed);
  slot.pages_allocated.store(std::max(have, kFirstPages), std::memory_order_relaxed);
  return kOk;
}

const ClosedFileOps *closed_files(const PoolShared &pool) {
  return pool.closed_names.load(std::memory_order_seq_cst) != 0 ? tree_ops().closed_files : nullptr;
}

// Was it open before?  The slot is kOpening: a drop waits for it (BufferPool::forget_file).
Status find_closed(const PoolShared &pool, Ctx &ctx, const FileSlot &slot, ClosedFile *closed,
                   bool *found) {
  *found = false;
  const ClosedFileOps *ops = is_own(slot) ? nullptr : closed_files(pool);
  if (!ops) return kOk;
  const Status status = ops->by_key(ctx, slot.key, closed);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  *found = closed->record.kind == slot.kind && closed->record.logged == slot.logged;
  return kOk;
}

void take_kept(FileSlot &slot, const ClosedFile &closed) {
  slot.rows_gone.store(closed.rows_gone, std::memory_order_relaxed);
  slot.rows_gone_swept.store(closed.rows_gone_swept, std::memory_order_relaxed);
  slot.table_slot.store(closed.table_slot, std::memory_order_relaxed);
  slot.table_no.store(closed.table_no, std::memory_order_relaxed);
}

Status fail_dropped(const FileSlot &slot) {
  return fail(LS_NOT_FOUND, "relation file \"%s\" was dropped", slot.path);
}

Status open_contents(BufferPool &pool, Ctx &ctx, FileSlot &slot, const Opening &o,
                     BufferPool::FormatTree format) {
  const bool recovering = o.file_no != 0;
  LS_TRY(check_seal(ctx, slot, o.expected != 0));   // SEAL-1
  ClosedFile closed;
  bool reopening = false;
  const bool followed = is_followed(*pool.shared(), slot);
  if (!recovering || followed)
    LS_TRY(find_closed(*pool.shared(), ctx, slot, &closed, &reopening));
  const bool is_expected = o.expected == 0 || (reopening && closed.record.file == o.expected);
  if (!is_expected) return fail_dropped(slot);
  if (reopening) slot.file_no.store(closed.record.file, std::memory_order_relaxed);
  bool absent;
  LS_TRY(load_meta(pool, ctx, slot, recovering, &absent));
  if (absent && o.expected != 0) return fail_dropped(slot);
  if (followed) {
    if (absent && !recovering) return fail(LS_END, "\"%s\" is empty", slot.path);
    if (!absent && reopening) take_kept(slot, closed);
    // Else following has ended meanwhile, and the names of open files were logged perhaps.
    if (recovering || is_followed(*pool.shared(), slot)) return kOk;
  } else if (absent && reopening) {
    // Truncated by the host: what bears the name now is another file.
    LS_TRY(tree_ops().closed_files->remove(ctx, slot.key));
    std::lock_guard lock(pool.shared()->table_mutex);
    slot.file_no.store(draw_locked(*pool.shared()), std::memory_order_relaxed);
  } else if (reopening) {
    take_kept(slot, closed);
  }
  // Named in the log before any record can refer to it.
  ClosedFile name = name_of(slot);
  name.record.anew = absent;
  if (slot.logged && !recovering) LS_TRY(log_file(ctx, name));
  if (!absent || recovering) return kOk;
  LS_TRY(begin_file(pool, slot));
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

// The slot's file is no more: from here on no actor opens, reads or writes it.
void forget_slot_locked(PoolShared &pool, FileSlot &slot) {
  LS_ASSERT(file_is(slot, FileState::kActive) || file_is(slot, FileState::kOpening));
  LS_ASSERT(pool.active_files.load(std::memory_order_relaxed) > 0);
  unlink_locked(pool, slot);
  pool.active_files.fetch_sub(1, std::memory_order_relaxed);
  pool.leaving.fetch_add(1, std::memory_order_relaxed);
  slot.state.store(FileState::kForgotten, std::memory_order_seq_cst);
}

// After forget_slot_locked, without the mutex.
void forget_rest(PoolShared &pool, FileSlot &slot, FileNo file_no) {
  // The host is about to unlink or truncate: a write still under way would meet the name's next
  // file.
  for (;;) {
    u32 writes = slot.writes.load(std::memory_order_seq_cst);
    if (writes == 0 || slot.file_no.load(std::memory_order_relaxed) != file_no) break;
    futex_wait(&slot.writes, writes, kWriteSliceUs);
  }
  file_forget(file_no);
  finish_leaving(pool, slot);
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
  // Sequentially consistent with forget: it sees the pin, or the writer sees the state.
  file.writes.fetch_add(1, std::memory_order_seq_cst);
  if (has_pages(file.state.load(std::memory_order_seq_cst)) &&
      file.file_no.load(std::memory_order_relaxed) == file_no) {
    return true;
  }
  unpin_file(file);
  return false;
}

void unpin_file(FileSlot &file) {
  LS_ASSERT(file.writes.load(std::memory_order_relaxed) > 0);
  if (file.writes.fetch_sub(1, std::memory_order_seq_cst) == 1 && !has_pages(file)) {
    futex_wake_all(&file.writes);
  }
}

void finish_leaving(PoolShared &pool, FileSlot &file) {
  if (!is_leaving(file) || file.frames.load(std::memory_order_seq_cst) != 0) return;
  FileNo file_no;
  bool dropped;
  {
    std::lock_guard lock(pool.table_mutex);
    if (!is_leaving(file)) return;
    if (file.frames.load(std::memory_order_seq_cst) != 0 ||
        file.writes.load(std::memory_order_seq_cst) != 0)
      return;
    if (file_in_use(pool, file)) return;   // USE-2
    dropped = file_is(file, FileState::kForgotten);
    if (!dropped) unlink_locked(pool, file);
    file_no = file.file_no.load(std::memory_order_relaxed);
    file.meta.store(pool.empty_meta(), std::memory_order_release);
    file.file_no.store(0, std::memory_order_relaxed);
    file.state.store(FileState::kUnused, std::memory_order_release);
    LS_ASSERT(pool.leaving.load(std::memory_order_relaxed) > 0);
    pool.leaving.fetch_sub(1, std::memory_order_relaxed);
  }
  // This process' descriptors: the last one of a dropped file frees the disk space.
  file_forget(file_no);
  if (dropped) drop_buffered_changes(pool, file_no);
  leave_opening(pool);
}

namespace {

// Those in use stay open.  Were there some?
bool let_used(PoolShared &pool, std::vector<FileSlot *> *closing) {
  return std::erase_if(*closing, [&](FileSlot *slot) {
    const bool in_use = file_in_use(pool, *slot);
    if (in_use) end_closing(pool, *slot, false);
    return in_use;
  }) > 0;
}

}  // namespace

std::vector<FileSlot *> begin_closing(PoolShared &pool, u32 most) {
  // A word that others change while it is looked at is no order.
  std::vector<std::pair<u64, FileSlot *>> idle;
  std::vector<FileSlot *> closing;
  idle.reserve(pool.max_files);
  closing.reserve(most);
  std::vector<bool> used(pool.max_files);
  for (u32 i = 0; i < pool.use_lines; i++) {
    for (const std::atomic<u32> &place : pool.uses[i].slots) {
      const u32 slot = place.load(std::memory_order_relaxed);
      LS_ASSERT(slot <= pool.max_files);
      if (slot != 0) used[slot - 1] = true;
    }
  }
  {
    std::lock_guard lock(pool.table_mutex);
    for (u32 i = 0; i < pool.max_files; i++) {
      FileSlot &slot = pool.files[i];
      if (!file_is(slot, FileState::kActive) || is_own(slot)) continue;
      if (slot.dropping || used[i]) continue;
      idle.emplace_back(slot.last_used.load(std::memory_order_relaxed), &slot);
    }
    const size_t n = std::min<size_t>(most, idle.size());
    std::nth_element(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(n), idle.end());
    for (size_t i = 0; i < n; i++) {
      idle[i].second->state.store(FileState::kClosing, std::memory_order_seq_cst);   // USE-1
      closing.push_back(idle[i].second);
    }
  }
  let_used(pool, &closing);
  return closing;
}

std::vector<FileSlot *> begin_closing(PoolShared &pool, std::span<const ls_ending_file> files,
                                      bool *busy) {
  std::vector<FileSlot *> closing;
  closing.reserve(files.size());
  *busy = false;
  {
    std::lock_guard lock(pool.table_mutex);
    for (const ls_ending_file &file : files) {
      FileSlot *slot = find_locked(pool, file.key);
      if (!slot || file_is(*slot, FileState::kClosed)) continue;
      *busy |= !file_is(*slot, FileState::kActive) || slot->dropping;
      if (!file_is(*slot, FileState::kActive) || slot->dropping) continue;
      slot->state.store(FileState::kClosing, std::memory_order_seq_cst);   // USE-1
      closing.push_back(slot);
    }
  }
  *busy |= let_used(pool, &closing);
  return closing;
}

void end_closing(PoolShared &pool, FileSlot &file, bool written) {
  {
    std::lock_guard lock(pool.table_mutex);
    LS_CHECK(file_is(file, FileState::kClosing), "a file was to be closed in another state");
    file.state.store(written ? FileState::kClosed : FileState::kActive, std::memory_order_seq_cst);
    if (written) {
      pool.active_files.fetch_sub(1, std::memory_order_relaxed);
      pool.leaving.fetch_add(1, std::memory_order_relaxed);
      pool.files_closed.fetch_add(1, std::memory_order_relaxed);
    } else {
      // Others are tried before it is this one's turn again.
      note_used(pool, file);
    }
  }
  if (written) {
    finish_leaving(pool, file);
    wake_providers(pool);
  }
  leave_opening(pool);
}

u32 free_places(const PoolShared &pool) {
  const u32 taken = pool.active_files.load(std::memory_order_relaxed) + own_left(pool);
  return pool.max_files - std::min(taken, pool.max_files);
}

u32 places_kept_free(const PoolShared &pool) {
  return reserved_places(pool) + 1 + (pool.max_files - pool.own_files) / kFreeShare;
}

FileSlot *BufferPool::find_file(const ls_rel_key &key) const {
  std::lock_guard lock(shared_->table_mutex);
  FileSlot *slot = find_locked(*shared_, key);
  return slot && file_is(*slot, FileState::kActive) ? slot : nullptr;
}

Status BufferPool::open_file(Ctx &ctx, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                             bool logged, FileNo file_no, FormatTree format, FileSlot **out) {
  FileHandle file;
  LS_TRY(open(ctx, {key, path, kind, logged, file_no}, format, &file));
  *out = file.slot;
  return kOk;
}

Status BufferPool::open_handle(Ctx &ctx, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                               bool logged, FormatTree format, FileHandle *file) {
  return open(ctx, {key, path, kind, logged}, format, file);
}

Status BufferPool::open_logged(Ctx &ctx, const FileRecord &record, const char *path,
                               FileHandle *file) {
  const ls_rel_key key{record.tablespace, record.database, record.relation, record.owner};
  const auto kind = static_cast<ls_rel_kind>(record.kind);
  return open(ctx, {key, path, kind, true, record.file}, nullptr, file);
}

Status BufferPool::reopen_file(Ctx &ctx, FileHandle *file) {
  const ClosedFileOps *ops = closed_files(*shared_);
  ClosedFile closed;
  if (!ops) return fail(LS_NOT_FOUND, "the file was dropped");
  LS_TRY(ops->by_number(ctx, file->number, &closed));
  const FileRecord &r = closed.record;
  const ls_rel_key key{r.tablespace, r.database, r.relation, r.owner};
  const auto kind = static_cast<ls_rel_kind>(r.kind);
  return open(ctx, {key, closed.path, kind, r.logged != 0, 0, file->number}, nullptr, file);
}

namespace {

Status fail_full(const BufferPool &pool) {
  const PoolShared &shared = *pool.shared();
  u32 used = 0;
  for (u32 i = 0; i < shared.max_files; i++) {
    used += has_pages(shared.files[i]) && file_in_use(shared, shared.files[i]);
  }
  return fail(LS_LIMIT, "%u of at most %u relations are open, %u of them in use",
              pool.open_relations(), shared.max_files - shared.own_files, used);
}

}  // namespace

void wake_closer(PoolShared &pool) {
  pool.closer_event.fetch_add(1, std::memory_order_release);
  futex_wake_all(&pool.closer_event);
}

Status BufferPool::open(Ctx &ctx, const Opening &opening, FormatTree format, FileHandle *out) {
  const char *path = opening.path;
  if (std::strlen(path) >= sizeof(FileSlot::path))
    return fail(LS_INVALID, "path is too long: \"%.100s...\"", path);
  FileSlot *slot = nullptr;
  // Redo says soon what it lacks.
  const bool redoes = ctx.must_open && shared_->following.load(std::memory_order_relaxed);
  const u64 deadline = now_ms() + (redoes ? kRedoSlotWaitMs : kSlotWaitMs);
  std::optional<WaitReport> waiting;
  for (bool ours = false, may_clear = false; !ours;) {
    u32 event = shared_->open_event.load(std::memory_order_acquire);
    {
      std::lock_guard lock(shared_->table_mutex);
      slot = find_locked(*shared_, opening.key);
      if (slot && file_is(*slot, FileState::kActive)) {
        *out = {slot, slot->file_no.load(std::memory_order_relaxed)};
        return opening.expected == 0 || out->number == opening.expected ? kOk : fail_dropped(*slot);
      }
      const bool own = is_own(opening.kind, opening.key);
      const bool place = !slot && has_place_locked(*shared_, own, ctx.must_open);
      if (place && (slot = unused_locked(*shared_))) {
        begin_opening_locked(*shared_, *slot, opening);
        shared_->active_files.fetch_add(1, std::memory_order_relaxed);
        ours = true;
      }
      // Under the mutex: a slot that becomes unused right behind it is no reason to give up.
      may_clear = slot || shared_->leaving.load(std::memory_order_relaxed) > 0 ||
                  shared_->has_closer.load(std::memory_order_relaxed) != 0;
    }
    if (ours) break;
    if (!may_clear || (!slot && now_ms() > deadline)) return fail_full(*this);
    if (interrupt_pending(ctx.interrupt)) {
      return fail(LS_INTERRUPTED, "interrupted while waiting to open \"%s\"", path);
    }
    if (!waiting) waiting.emplace(&ctx.waits, LS_WAIT_OPEN_RELATION);
    wake_providers(*shared_);
    if (!slot) wake_closer(*shared_);
    futex_wait_interruptible(&shared_->open_event, event, kOpenSliceUs);
  }
  waiting.reset();
  if (free_places(*shared_) <= places_kept_free(*shared_)) wake_closer(*shared_);
  // Whatever happens: others wait for the slot to leave this state.
  const Status status =
      with_memory([&] { return open_contents(*this, ctx, *slot, opening, format); });
  FileNo number = slot->file_no.load(std::memory_order_relaxed);
  LS_ASSERT(file_is(*slot, FileState::kOpening));
  if (ok(status)) {
    slot->state.store(FileState::kActive, std::memory_order_release);
    *out = {slot, number};
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

void BufferPool::close_recovered(FileSlot &file) {
  Frame *meta = file.meta.load(std::memory_order_relaxed);
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  LS_ASSERT(meta != shared_->empty_meta());
  LS_ASSERT(meta->dirty_since.load(std::memory_order_relaxed) == 0);
  {
    std::lock_guard lock(shared_->table_mutex);
    unlink_locked(*shared_, file);
    shared_->active_files.fetch_sub(1, std::memory_order_relaxed);
    file.meta.store(shared_->empty_meta(), std::memory_order_release);
    file.state.store(FileState::kUnused, std::memory_order_release);
  }
  release_frame(*shared_, meta);
  LS_CHECK(file.frames.load(std::memory_order_relaxed) == 0,
           "a file that recovery closes has pages in memory");
  file.file_no.store(0, std::memory_order_relaxed);
  file_forget(file_no);
}

namespace {

// Cannot be refused: frames and memory become free.
void remove_closed_name(BufferPool &pool, const ls_rel_key &key) {
  const ClosedFileOps *ops = closed_files(*pool.shared());
  if (!ops) return;
  Ctx ctx;
  ctx.pool = &pool;
  insist([&] { return ops->remove(ctx, key); });
}

}  // namespace

// A file that was closed is not in the table: its name goes, so that no worker opens it again
// (find_closed).  A worker that is opening it at this moment has a slot, which is found when the
// name is gone.
void BufferPool::forget_file(const ls_rel_key &key) {
  for (;;) {
    u32 event = shared_->open_event.load(std::memory_order_acquire);
    FileSlot *slot;
    bool wait = false;
    {
      std::lock_guard lock(shared_->table_mutex);
      slot = find_locked(*shared_, key);
      wait = slot && !file_is(*slot, FileState::kActive);
      if (slot && !wait) slot->dropping = true;
    }
    if (wait) {
      wake_providers(*shared_);
      futex_wait(&shared_->open_event, event, kOpenSliceUs);
      continue;
    }
    remove_closed_name(*this, key);
    LS_FAILPOINT(buffer_before_forget);
    FileNo file_no = 0;
    {
      std::lock_guard lock(shared_->table_mutex);
      if (find_locked(*shared_, key) != slot) continue;
      if (!slot) return;
      slot->dropping = false;
      file_no = slot->file_no.load(std::memory_order_relaxed);
      forget_slot_locked(*shared_, *slot);
    }
    forget_rest(*shared_, *slot, file_no);
    return;
  }
}

std::vector<ls_rel_key> BufferPool::keys_of(u32 database) const {
  std::vector<ls_rel_key> keys;
  std::lock_guard lock(shared_->table_mutex);
  for (u32 i = 0; i < shared_->max_files; i++) {
    FileSlot &slot = shared_->files[i];
    FileState state = slot.state.load(std::memory_order_acquire);
    const bool open = has_pages(state) || state == FileState::kOpening;
    if (open && slot.key.database == database) keys.push_back(slot.key);
  }
  return keys;
}

Status BufferPool::forget_database(Ctx &ctx, u32 database) {
  std::vector<ls_rel_key> keys = keys_of(database);
  if (const ClosedFileOps *ops = closed_files(*shared_)) LS_TRY(ops->keys_of(ctx, database, &keys));
  for (const ls_rel_key &key : keys) forget_file(key);
  return kOk;
}

Status BufferPool::log_files(Ctx &ctx) {
  std::vector<ClosedFile> names;
  {
    std::lock_guard lock(shared_->table_mutex);
    for (u32 i = 0; i < shared_->max_files; i++) {
      FileSlot &slot = shared_->files[i];
      // Those being opened as well: their own record may lie before the checkpoint.
      FileState state = slot.state.load(std::memory_order_acquire);
      const bool open = has_pages(state) || state == FileState::kOpening;
      if (open && slot.logged) names.push_back(name_of(slot));
    }
  }
  for (const ClosedFile &name : names) LS_TRY(log_file(ctx, name));
  return kOk;
}

Status BufferPool::log_closing(Ctx &ctx, FileSlot &file) { return log_file(ctx, name_of(file)); }

ClosedFile closing_name(const FileSlot &file) {
  ClosedFile closed = name_of(file);
  closed.rows_gone = file.rows_gone.load(std::memory_order_relaxed);
  closed.rows_gone_swept = file.rows_gone_swept.load(std::memory_order_relaxed);
  closed.table_slot = file.table_slot.load(std::memory_order_relaxed);
  closed.table_no = file.table_no.load(std::memory_order_relaxed);
  return closed;
}

u64 BufferPool::files_closed() const {
  return shared_->files_closed.load(std::memory_order_relaxed);
}

u32 BufferPool::open_relations() const {
  const u32 files = active_files();
  return files - std::min(files, shared_->own_open);
}

u32 BufferPool::active_files() const {
  return shared_->active_files.load(std::memory_order_relaxed);
}

void BufferPool::set_next_file_no(FileNo file_no) {
  std::lock_guard lock(shared_->table_mutex);
  if (file_no > shared_->next_file_no.load(std::memory_order_relaxed)) {
    shared_->next_file_no.store(file_no, std::memory_order_relaxed);
  }
}

FileNo BufferPool::draw_file_no() {
  std::lock_guard lock(shared_->table_mutex);
  return draw_locked(*shared_);
}

FileNo BufferPool::next_file_no() const {
  return shared_->next_file_no.load(std::memory_order_relaxed);
}

}  // namespace ls
