// pool.hpp - the buffer pool: frames, free list, file table, swip resolution (LeanStore paper,
// section 6).
//
// Workers read missing pages themselves (io_stage.hpp: each page read once however many ask) and
// never evict or write; page providers (page_provider.hpp) keep the free list above its low-water
// mark.
//
// Latch order: file table mutex < FileSlot::mutex < meta page < parent < child < right sibling <
// I/O partition mutex.  Against it only try.  No I/O, no wait for a frame or for the log with an
// exclusive latch held.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "base/wait_report.hpp"
#include "buffer/file_table.hpp"
#include "buffer/frame.hpp"
#include "buffer/page.hpp"
#include "buffer/pool_shared.hpp"
#include "buffer/swip.hpp"
#include "leanstore/engine.h"
#include "wal/log.hpp"

namespace ls {

struct PoolConfig {
  u64 bytes;            // page memory; frames = bytes / kPageSize
  u32 max_files;            // relations that may be open at a time
  u32 io_partitions;    // power of two
  u32 own_files = 0;        // besides, trees of the store's own
  u32 workers = 64;         // Ctx::slot is below
  // of the frames may hold compressed pages (compressed_cache.hpp)
  u32 compressed_cache_percent = 0;
  // Absolute path of the doublewrite file (doublewrite.hpp).  "" writes logged pages unprotected
  // against torn writes: only for tests.
  char doublewrite_path[640] = "";
};

class OptimisticGuard;
class BufferPool;
struct ChangeBufferPage;

// An evicted swip, in the page of `parent`, as long as that has this version; and its page.
struct EvictedChild {
  Frame *parent;
  u64 *version;
  Swip *location;
  PageNo page_no;
};

// Where a reader past the pool finds a page.  kNot: a frame of it is on its way, or it has buffered
// changes.
enum class ReadPast : u8 { kCopied, kFile, kNot };

// What a worker (or engine thread) needs to work on pages.  Private to it, not in shared memory.
struct Ctx {
  BufferPool *pool = nullptr;
  LogAppender *log = nullptr;              // null: may not change logged trees
  u32 slot = 0;
  const volatile int *interrupt = nullptr; // host's interrupt flag, polled in long waits
  HostWaits waits{};                       // what the host shows of waits
  bool must_open = false;                  // a rollback, or redo: the file table's last places
  u64 random = 0x9e3779b97f4a7c15;         // state of a private generator
  ls_page_counts pages{};                  // for the host, which shows what a query has used
  Dependencies *dependencies = nullptr;    // null: not counted
  PageNo just_read = kInvalidPageNo;       // its next resolve is no hit
  bool undoing = false;                    // what must not be refused (PageReservation)
};

// Outcome of a step of an optimistic descent.  kRestart: something changed underneath, begin again
// from the root, all guards released (the one retry loop per operation, style.md).
enum class Step : u8 { kOk, kRestart, kError };

struct PoolStats {
  u64 reads, writes, evictions, frames, free, dirty, hits, restarts, splits, merges, reads_ahead,
      batches_ahead;
  u64 change_buffer_inserts, change_buffer_pending;   // changes (change_buffer.hpp): ever, and now
  // pages (compressed_cache.hpp): ever, now, and those the file does not have; the frames that hold
  // them
  u64 decompressed, compressed, compressed_dirty, compressed_frames;
};

// Called by a flush between two batches, no latch held, when `done` of `total` pages are written:
// may sleep.
using FlushPace = std::function<void(size_t done, size_t total)>;

class BufferPool {
 public:
  static size_t arena_bytes(const PoolConfig &config);
  static void create(void *arena, const PoolConfig &config);
  // Per process; `log` tells what is hardened (page writes must not overtake it).
  static BufferPool attach(void *arena, Log log);

  u32 frame_count() const { return shared_->frame_count; }
  Frame *frame(u32 index) const { return shared_->frames + index; }
  u32 index_of(const Frame *frame) const { return static_cast<u32>(frame - shared_->frames); }
  // its 4 KiB
  u8 *page(const Frame *frame) const { return shared_->pages + u64{index_of(frame)} * kPageSize; }
  FileSlot &file(u32 index) const { return shared_->files[index]; }

  // ---- files
  // Find the active slot of a key, null if none.
  FileSlot *find_file(const ls_rel_key &key) const;
  // Find or open.  An empty or absent-content file (size 0) becomes an empty tree: meta page and
  // root leaf are made by `format` (btree/), logged when `logged`.  file_no: 0 = draw a fresh one
  // (and log a FileRecord), else (recovery) this.
  using FormatTree = Status (*)(Ctx &ctx, FileSlot &slot);
  Status open_file(Ctx &ctx, const ls_rel_key &key, const char *path, ls_rel_kind kind, bool logged,
                   FileNo file_no, FormatTree format, FileSlot **slot);
  // Where files are closed meanwhile.
  Status open_handle(Ctx &ctx, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                     bool logged, FormatTree format, FileHandle *file);
  // By a follower of the log: a file that the log names.  Without content its pages are redone.
  Status open_logged(Ctx &ctx, const FileRecord &record, const char *path, FileHandle *file);
  // Open a file again that was closed.  LS_NOT_FOUND: it was dropped.
  Status reopen_file(Ctx &ctx, FileHandle *file);
  // Pages of the file are dropped without being written; readers of it get LS_NOT_FOUND.  Frames
  // are given back lazily.
  void forget_file(const ls_rel_key &key);
  Status forget_database(Ctx &ctx, u32 database);
  // Files of a database that are open or being opened.
  std::vector<ls_rel_key> keys_of(u32 database) const;
  // Append a FileRecord for every active logged slot (checkpoint).
  Status log_files(Ctx &ctx);
  // The same for one that is being closed: the next checkpoint will not name it.
  Status log_closing(Ctx &ctx, FileSlot &file);
  // During recovery, which can open it again.  Only its meta page is in a frame, and is not dirty.
  void close_recovered(FileSlot &file);
  u32 active_files() const;
  u32 open_relations() const;   // without trees of the store's own
  u64 files_closed() const;
  // Numbers below are used up; at start: the control file's, or one above the largest seen in the
  // log.
  void set_next_file_no(FileNo file_no);
  FileNo next_file_no() const;
  FileNo draw_file_no();

  // ---- frames
  // A frame for a new page: latched exclusively, state kLoading, page zeroed with its PageHeader
  // set, not yet reachable.  Waits for the page provider; LS_NO_FRAMES after a generous time.  No
  // latch held by the caller.  page_no kInvalidPageNo: the number is not known yet (it is taken
  // under the meta page's latch); name_frame() follows.
  Status new_frame(Ctx &ctx, FileSlot &file, PageNo page_no, PageKind kind, Frame **frame);
  // Give an unnamed new frame its page number (frame and PageHeader).  Exclusive latch held, and
  // the meta page's under which allocate_page gave the number.  Never store page_no directly: an
  // older life of that page may still be dirty.
  void name_frame(Frame *frame, PageNo page_no);
  // Give back an exclusively latched frame with a page that is in no tree any more (or never was);
  // releases the latch.  A page still to be written becomes a free one; it has the GSN of what
  // freed it.
  void free_frame(Frame *frame);
  // The page was changed by the record `gsn` (0: not logged); exclusive latch held, since before
  // that was made.  Also stores it in the PageHeader.  A new frame becomes kHot: it is part of its
  // tree when the latch is released.  The record has the whole page, or it is redone.
  void mark_dirty(Frame *frame, Gsn gsn);
  // The same of a record that needs the page as it was: its image follows where one is due (IMG-1
  // in wal/image_horizon.hpp).  Log space: that of the record.  log: as of Ctx.
  void mark_changed(LogAppender *log, Frame *frame, Gsn gsn);
  // The page was changed in a way that no record describes and that a crash may lose (row lock
  // flags); exclusive latch held.  The PageHeader's GSN stays, unless an image is due; the page
  // counts as dirty from now on, so that no old log is kept for it.  Log space is reserved.
  void mark_dirty_hint(LogAppender *log, Frame *frame);

  // ---- following a swip
  // The meta page, where a descent begins.  kError LS_NOT_FOUND when the file was forgotten.
  Step resolve_meta(FileSlot &file, OptimisticGuard &meta);
  // `location` points into the page of `parent`.  Takes the child optimistically with the parent
  // validated after the child's version was read; the parent guard stays usable after kOk, and is
  // reset after kRestart and kError.  A cool child is made hot again; an evicted one is read (no
  // latch held meanwhile) and swizzled, then kRestart.  The caller holds no latch.  kError:
  // last_error(); LS_NOT_FOUND when the file was forgotten.
  Step resolve(Ctx &ctx, OptimisticGuard &parent, Swip *location, FileSlot &file,
               OptimisticGuard &child);
  // A page that was read past the pool enters it, cool, if that takes no frame from pages that are
  // in use: `page` is what the swip refers to.  *version follows.  No latch held.
  void take_in(Ctx &ctx, FileSlot &file, const EvictedChild &child, const u8 *page);
  // The same in any case, with its buffered changes.  kRestart: the parent has changed, or another
  // reader is reading the page.
  Step bring_in(Ctx &ctx, FileSlot &file, const EvictedChild &child, const u8 *page);
  // Is what the file has of an evicted page perhaps not the newest: it is compressed and was not
  // written, or a frame of it is on its way?
  bool is_beside_file(const FileSlot &file, PageNo page_no) const;
  // Copy an evicted page, if it is compressed, or say whether the file has it.
  ReadPast read_past(const FileSlot &file, PageNo page_no, u8 *page) const;
  // Read a page into a frame without a tree around it (meta pages): exclusively latched, state
  // kLoaded.
  Status load_page(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame);

  // ---- flushing (checkpointer, host threads holding no latch)
  // Read these pages, as far as they are not damaged.
  Status make_buffered_changes(Ctx &ctx, std::span<const ChangeBufferPage> pages);
  // Write every page that is dirty now, since up_to or before; include_unlogged: those of unlogged
  // trees too (shutdown; never the version store).  Syncs the files written.  Waits until
  // what it writes is hardened: the committer must run, or everything be hardened already.
  // Buffered changes (change_buffer.hpp) are made first, but where the page is damaged:
  // oldest_dirty() tells.
  Status flush(Ctx &ctx, Gsn up_to, bool include_unlogged, const FlushPace &pace = {});
  // During recovery, when there are no trees yet: logged pages that are dirty.
  Status flush_frames(Ctx &ctx);
  // The same for all pages of files that are being closed, those of unlogged trees too.  A page
  // that cannot be made clean stays dirty.
  Status flush_closing(Ctx &ctx);
  // Files that are being closed of which a page, or a buffered change of one, is not on disk.
  std::vector<const FileSlot *> unclean_closing() const;
  // The same for all pages of a database's files, those of unlogged trees too.
  Status flush_database(Ctx &ctx, u32 database);
  // Min dirty_since over logged dirty pages, and buffered changes; ~0 when none.  How to get a redo
  // bound from it:
  //     Gsn hardened = log.hardened();             // BEFORE the scan
  //     Gsn redo_from = min(hardened + 1, pool.oldest_dirty());
  // Every change with a GSN >= redo_from may be missing on disk, none below.  Why: a record with
  // gsn <= hardened was finished before the scan began, and its page is exclusively latched from
  // before finish() until mark_dirty(); the scan waits for exclusively latched frames, so it sees
  // the mark (or the page was written since).  A record with gsn > hardened may be missed, and is
  // covered by hardened + 1.
  Gsn oldest_dirty() const;

  // Fill stats.
  PoolStats stats() const;
  void count_restart(u32 worker_slot = 0);
  void count_read_ahead(u32 pages);
  void count_split(u32 worker_slot);   // structure changes of trees
  void count_merge(u32 worker_slot);

  Log &log() { return log_; }
  PoolShared *shared() const { return shared_; }

 private:
  BufferPool(PoolShared *shared, Log log) : shared_(shared), log_(log) {}
  Status open(Ctx &ctx, const struct Opening &opening, FormatTree format, FileHandle *file);
  Step enter(Ctx &ctx, FileSlot &file, const EvictedChild &child, Frame *frame, const u8 *page);
  Step read_evicted(Ctx &ctx, OptimisticGuard &parent, Swip *location, FileSlot &file,
                    PageNo page_no);
  Step resolve_followed(Ctx &ctx, OptimisticGuard &parent, FileSlot &file, PageNo page_no,
                        OptimisticGuard &child);
  void count_hit(Ctx &ctx, const OptimisticGuard &child);
  PoolShared *shared_;
  Log log_;
};

// ---- how the pool sees trees: registered once per process by btree/, plain functions that never
// block.  latch_parent also serves files in state kForgotten or kClosed (their frames are dropped
// bottom-up): it must not use resolve(), nor do I/O; the path to a resident page is resident.
inline constexpr u32 kMostShuffledBytes = kPageSize + 2;
struct ClosedFile;
struct ClosedFileOps {
  // LS_NOT_FOUND: no such file was closed, or it was dropped since.
  Status (*by_key)(Ctx &ctx, const ls_rel_key &key, ClosedFile *file);
  Status (*by_number)(Ctx &ctx, FileNo number, ClosedFile *file);
  Status (*put)(Ctx &ctx, const ClosedFile &file);
  // Absent is fine.
  Status (*remove)(Ctx &ctx, const ls_rel_key &key);
  Status (*keys_of)(Ctx &ctx, u32 database, std::vector<ls_rel_key> *keys);
  // Those that are open again, too, as they were then.
  Status (*all)(Ctx &ctx, std::vector<ClosedFile> *files);
  // Of sealed files (sealed_files.hpp).  LS_NOT_FOUND: it is not.
  Status (*seal)(Ctx &ctx, Tn tn, const ls_ending_file &file);
  Status (*sealed_by)(Ctx &ctx, const ls_rel_key &key, Tn *tn);
  Status (*sealed_of)(Ctx &ctx, Tn tn, std::vector<ls_ending_file> *files);
  // Absent is fine.
  Status (*unseal)(Ctx &ctx, Tn tn, const ls_rel_key &key);
};
// Of a node: the bytes from begin up to end mean nothing.
struct PageGap {
  u16 begin, end;
};
// An operation of the log on one page.
struct PageOperation {
  u8 code;
  std::span<const u8> operands;
  Tn tn;   // of its record's transaction; 0: none
};
struct TreeOps {
  // Call each(arg, swip) for every swip in a meta, inner or trunk page; stops when it returns
  // false.
  void (*each_swip)(u8 *page, void *arg, bool (*each)(void *arg, Swip *swip));
  // Latch the parent, the page with the swip to `child`, exclusively (try only).  child_page: a
  // validated private copy of the child's page.  kOk: *parent is latched exclusively and **swip
  // refers to child.
  Step (*latch_parent)(BufferPool &pool, FileSlot &file, Frame *child, const u8 *child_page,
                       Frame **parent, Swip **swip);
  // Is the page, a private copy, a leaf that could be merged with others (sparse_leaves.hpp)?
  // Null: there is no such thing.
  bool (*is_sparse)(const FileSlot &file, const u8 *page) = nullptr;
  // What is known of the page that is being evicted.  Null: nothing.
  LeafFreeSpace (*leaf_free_space)(const u8 *page) = nullptr;
  // For compressed pages (compressed_cache.hpp): a leaf's bytes in an order in which they compress
  // well, kMostShuffledBytes at most (0: it cannot be), and back (false: damaged). Null: none is
  // compressed.
  u32 (*shuffle)(const u8 *leaf, u8 *out) = nullptr;
  bool (*unshuffle)(std::span<const u8> shuffled, u8 *leaf) = nullptr;
  // What is wrong with a page that was read, and with it as that child (btree/stored_page.hpp):
  // null when nothing is.  Null: nothing is looked at.
  const char *(*fault)(const u8 *page, PageNo page_count) = nullptr;
  const char *(*child_fault)(const u8 *parent, const Swip *location, const u8 *child) = nullptr;
  // For buffered changes (change_buffer.hpp).  Do an operation of the log to a page, which has been
  // read.
  Status (*redo)(const PageOperation &op, u8 *page, PageNo page_no) = nullptr;
  // A key of the leaf that the operation is about: in its operands, or made in `room`, of 8 bytes.
  // False: it names none.
  bool (*key_of)(const PageOperation &op, u8 *room, std::span<const u8> *key) = nullptr;
  // Names of files that were closed (closed_files.hpp).  Null: none is.
  const struct ClosedFileOps *closed_files = nullptr;
  // For images in the log (page_image.hpp).  Null: no byte is left out.
  PageGap (*gap)(const u8 *node) = nullptr;
  // Read pages of one file with buffered changes; but damaged ones.
  Status (*bring_in)(Ctx &ctx, FileSlot &file, std::span<const ChangeBufferPage> pages) = nullptr;
};
void register_tree_ops(const TreeOps &ops);
const TreeOps &tree_ops();
// References in a copy of a page become what they are in the file.  The page is latched.
void store_references(u8 *copy);
// page_fault(), and what its tree says.
const char *read_fault(const u8 *page, PageNo page_no, Gsn log_end,
                       PageNo page_count = kInvalidPageNo);

}  // namespace ls
