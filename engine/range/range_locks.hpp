// range_locks.hpp - locks on ranges of keys: owners, what they hold, and the requests that wait
// (engine.h, "range locks").
//
// Arena: RangeShared | memory slots | owner slots | cells.  Formatted once; a RangeLocks is a view
// that is made for a call.
//
//   RANGE-1  What an owner holds and asks for hangs on its record, in a chain through the nodes'
//            links; records hang on the slot of the worker that began the transaction (one, and
//            more while prepared transactions live on).  All of it is protected by that slot's
//            latch, so calls for one owner come one at a time; owners never wait for each other
//            there.  The worker itself takes the latch by entering the epoch, which costs nothing
//            more; then it stays inside to the end of the call.
//   RANGE-2  A worker has at most one request that waits (`waiting`).  It is a node like any other,
//            in the chain of its owner.
//   RANGE-3  A range that the owner holds is covered at any moment by granted nodes; a node that a
//            wider one replaces is removed after it was granted (RangeList, LIST-6).
//
// Latches: the owner slot's, and nothing below it.  No waiting but for cells when memory is short
// (RangeMemory::reserve), for which the worker lets go and takes the latch as others do.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "os/futex.hpp"
#include "range/range_latch.hpp"
#include "range/range_list.hpp"

namespace ls {

// A record: the first one of a slot in its OwnerSlot, more in cells.
struct RangeOwnerRecord : RangeCell<HardwareAtomics> {
  RangeOwner id;
  RangeOwnerRecord *following;
  RangeNode<HardwareAtomics> *nodes;
  u64 count;
  u64 coalesced;     // count when ranges were last traded for wider ones
};
static_assert(sizeof(RangeOwnerRecord) <= kRangeCellBytes);

struct alignas(kCacheLine) RangeOwnerSlot {
  BiasedLatch<HardwareAtomics, FutexMutex<LockRank::kAlone>> latch;
  RangeOwnerRecord *owners = nullptr;
  // Private to the slot's worker: its request that waits, the owner for which it was made, and
  // which one it is (a hash).
  u64 waiting = 0;
  RangeOwner waiting_owner;
  u64 waiting_print = 0;
  RangeOwnerRecord first;   // in use: in the list of owners
  bool first_in_use = false;
};

struct RangeShared {
  RangeMemory<HardwareAtomics>::Shared memory;
  RangeList<HardwareAtomics>::Shared list;
  RangeOwnerSlot *owner_slots = nullptr;
  // One backend at a time lists the locks, in the last memory slot.
  FutexMutex<LockRank::kAlone> viewer;
};

struct RangeRequest {
  RangeTree tree;
  std::span<const u8> from, to;
  bool to_end = false;
  RangeMode mode = kRangeShared;
  RangeOwner owner;
};

inline RangeTree range_tree(const ls_rel_key &key) {
  return {u64{key.tablespace} << 32 | key.database,
          u64{key.relation} << 32 | static_cast<u32>(key.owner)};
}

class RangeLocks {
 public:
  using Memory = RangeMemory<HardwareAtomics>;
  using List = RangeList<HardwareAtomics>;
  using Node = List::Node;

  // bytes: of cells, 0 for the default; a few for each slot at least.
  static size_t arena_bytes(u64 bytes, u32 slots);
  static RangeShared *create(void *arena, u64 bytes, u32 slots);

  // slot: of the worker that calls.
  RangeLocks(RangeShared &shared, u32 slot);

  // LS_OK, LS_LOCKED, LS_RANGE_MEMORY.
  Status lock(const RangeRequest &request, RangeOwner *holder);
  [[gnu::noinline]] void withdraw();
  void unlock_all(RangeOwner owner);

  static size_t list(RangeShared &shared, ls_range_info *out, size_t cap);

 private:
  class OwnHold;
  class Hold;
  [[gnu::noinline]] Node *waiting_request(const RangeRequest &request, const RangeBounds &b);
  // kShort: too few cells, or inside too few at hand
  enum class Answer { kGranted, kWait, kShort };
  struct NewRange {
    const RangeBounds &bounds;
    RangeMode mode;
    u32 height;
    bool near;                // the owner may hold something that goes into it
    List::Start start = {};
  };
  [[gnu::noinline]] Answer lock_as_other(const RangeRequest &request, const RangeBounds &b,
                                         RangeOwner *holder);
  [[gnu::noinline]] void unlock_as_other(RangeOwner id);
  // With the owner's latch.
  Answer lock_held(const RangeRequest &request, const RangeBounds &b, RangeOwner *holder);
  [[gnu::noinline]] Answer lock_near(RangeOwnerRecord &owner, const RangeRequest &request,
                                     RangeBounds b, RangeOwner *holder);
  Answer lock_range(RangeOwnerRecord &owner, const NewRange &r, RangeOwner *holder);
  Answer ask(RangeOwnerRecord &owner, const NewRange &r, RangeOwner *holder);
  Answer decide(RangeOwnerRecord &owner, Node *n, const NewRange &r, List::Tower *index_node,
                RangeOwner *holder);
  void withdraw_waiting(RangeOwnerRecord &owner);
  bool release_some(RangeOwner id);
  [[gnu::noinline]] void absorb(RangeOwnerRecord &owner, const Node &wider, const RangeBounds &b);
  [[gnu::noinline]] void coalesce(RangeOwnerRecord &owner);
  void coalesce_among(RangeOwnerRecord &owner, std::span<Node *> nodes);
  bool cover(RangeOwnerRecord &owner, std::span<Node *> nodes);

  RangeOwnerRecord *find_owner(RangeOwner id);
  RangeOwnerRecord *find_or_add_owner(RangeOwner id);
  void drop_owner(RangeOwnerRecord *owner);
  void chain(RangeOwnerRecord &owner, Node *n);
  void unchain(RangeOwnerRecord &owner, Node *n);
  Node *node_at(u64 number) const;
  Node *next_of(const Node *n) const;
  static void set_link(Node *n, u64 before, u64 next);

  RangeShared &shared_;
  const u32 slot_;
  RangeOwnerSlot &own_;
  Memory memory_;
  List list_;
};

}  // namespace ls
