// range_locks.cpp - requests: taken, waiting, widened, released; the listing of what is held.
#include "range/range_locks.hpp"

#include <algorithm>
#include <mutex>
#include <new>

namespace ls {

namespace {

constexpr u64 kDefaultBytes = u64{16} << 20;
// What a slot may keep for itself (RangeMemory), and a little to work with.
constexpr u64 kMinCellsPerSlot = 512;
// Cells for a tower, and for the span lists of index nodes that a range meets; more are taken one
// by one.
constexpr u32 kSpareCells = 4;
// An owner with that many ranges trades them for wider ones, before the arena is full of what one
// scan in small steps has locked.
constexpr u64 kCoalesceAt = 4096;
// Ranges that are released before others are let in, and what they have retired may be free.
constexpr u32 kReleasedAtOnce = 64;

// Inside the epoch, unless the caller is already.
struct Inside {
  explicit Inside(RangeLocks::Memory &memory) : memory_(memory.is_inside() ? nullptr : &memory) {
    if (memory_) memory_->enter();
  }
  ~Inside() {
    if (memory_) memory_->leave();
  }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  RangeLocks::Memory *memory_;
};

struct Layout {
  size_t slots, owners, cells, end;
  u64 cell_count;
};

Layout layout_of(u64 bytes, u32 slots) {
  Layout l{};
  l.cell_count =
      std::max((bytes ? bytes : kDefaultBytes) / kRangeCellBytes, kMinCellsPerSlot * slots);
  l.slots = sizeof(RangeShared);
  l.owners = l.slots + sizeof(RangeLocks::Memory::Slot) * (slots + 1);
  // Cell number 0 is none, and not there.
  l.cells = (l.owners + sizeof(RangeOwnerSlot) * slots + kRangeCellBytes - 1) / kRangeCellBytes *
                kRangeCellBytes -
            kRangeCellBytes;
  l.end = l.cells + (l.cell_count + 1) * kRangeCellBytes;
  return l;
}

// Bounds of a request; one that is too long is rounded away from the range.
class RequestBounds {
 public:
  explicit RequestBounds(const RangeRequest &r) {
    bounds_.tree = r.tree;
    set_range_key(bounds_.from, r.from.data(),
                  static_cast<u32>(std::min<size_t>(r.from.size(), kMaxRangeKeyBytes)));
    bounds_.to_end = r.to_end;
    if (r.to_end) return;
    if (r.to.size() <= kMaxRangeKeyBytes) {
      set_range_key(bounds_.to, r.to.data(), static_cast<u32>(r.to.size()));
      return;
    }
    u32 len = kMaxRangeKeyBytes;
    std::memcpy(rounded_, r.to.data(), len);
    while (len > 0 && rounded_[len - 1] == 0xff) len--;
    bounds_.to_end = len == 0;
    if (len > 0) rounded_[len - 1]++;
    set_range_key(bounds_.to, rounded_, len);
  }
  RequestBounds(const RequestBounds &) = delete;
  RequestBounds &operator=(const RequestBounds &) = delete;
  RangeBounds &operator*() { return bounds_; }

 private:
  RangeBounds bounds_;
  u8 rounded_[kMaxRangeKeyBytes];
};

u64 fingerprint(const RangeRequest &r) {
  u64 print = r.mode * 2 + r.to_end;
  auto add = [&](std::span<const u8> bytes) {
    for (u8 byte : bytes) print = (print ^ byte) * 0x100000001b3u;
    print = (print ^ bytes.size()) * 0x100000001b3u;
  };
  add(r.from);
  add(r.to);
  return print;
}

u32 info_key(u8 (&out)[32], const RangeKey &key) {
  u32 len = std::min<u32>(key.len, sizeof out), head = std::min(len, kRangeWordBytes);
  range_key_head(key, out, head);
  if (len > head) std::memcpy(out + head, key.tail, len - head);
  return len;
}

}  // namespace

size_t RangeLocks::arena_bytes(u64 bytes, u32 slots) { return layout_of(bytes, slots).end; }

RangeShared *RangeLocks::create(void *arena, u64 bytes, u32 slots) {
  Layout l = layout_of(bytes, slots);
  u8 *base = static_cast<u8 *>(arena);
  auto *shared = new (arena) RangeShared;
  shared->memory.cells = base + l.cells;
  shared->memory.cell_count = static_cast<u32>(l.cell_count);
  shared->memory.slot_count = slots + 1;
  shared->memory.slots = reinterpret_cast<Memory::Slot *>(base + l.slots);
  for (u32 i = 0; i <= slots; i++) new (&shared->memory.slots[i]) Memory::Slot;
  shared->owner_slots = reinterpret_cast<RangeOwnerSlot *>(base + l.owners);
  for (u32 i = 0; i < slots; i++) new (&shared->owner_slots[i]) RangeOwnerSlot;
  List::create(shared->list);
  return shared;
}

RangeLocks::RangeLocks(RangeShared &shared, u32 slot)
    : shared_(shared),
      slot_(slot),
      own_(shared.owner_slots[slot]),
      memory_(shared.memory, slot),
      list_(shared.list, memory_) {}

// ---- holding the latch of an owner's slot

// As the slot's worker, inside.
class RangeLocks::OwnHold {
 public:
  explicit OwnHold(RangeLocks &locks)
      : memory_(locks.memory_), held_(locks.own_.latch.try_enter(memory_)) {}
  ~OwnHold() {
    if (held_) memory_.leave();
  }
  OwnHold(const OwnHold &) = delete;
  OwnHold &operator=(const OwnHold &) = delete;
  explicit operator bool() const { return held_; }

 private:
  Memory &memory_;
  const bool held_;
};

// As another worker, or as the slot's that has given way.
class RangeLocks::Hold {
 public:
  Hold(RangeLocks &locks, u32 slot) : latch_(locks.shared_.owner_slots[slot].latch) {
    latch_.lock(locks.memory_, slot);
  }
  ~Hold() { latch_.unlock(); }
  Hold(const Hold &) = delete;
  Hold &operator=(const Hold &) = delete;

 private:
  BiasedLatch<HardwareAtomics, FutexMutex<LockRank::kAlone>> &latch_;
};

// ---- requests

// The usual case shall be one piece of code: [[gnu::flatten]].
[[gnu::flatten]] Status RangeLocks::lock(const RangeRequest &request, RangeOwner *holder) {
  RequestBounds bounds(request);
  if ((*bounds).empty()) return kOk;
  if (own_.waiting != 0 && !waiting_request(request, *bounds)) withdraw();
  Answer answer = Answer::kShort;
  // A cell more for the owner's record.
  if (request.owner.slot == slot_ && memory_.reserve(List::cells_for(*bounds) + kSpareCells + 1))
    if (OwnHold hold(*this); hold) answer = lock_held(request, *bounds, holder);
  if (answer == Answer::kGranted) return kOk;
  if (answer == Answer::kShort) answer = lock_as_other(request, *bounds, holder);
  if (answer == Answer::kGranted) return kOk;
  return answer == Answer::kWait ? make_status(LS_LOCKED)
                                 : fail(LS_RANGE_MEMORY, "out of shared memory for range locks");
}

RangeLocks::Answer RangeLocks::lock_as_other(const RangeRequest &request, const RangeBounds &b,
                                             RangeOwner *holder) {
  Hold hold(*this, request.owner.slot);
  return lock_held(request, b, holder);
}

RangeLocks::Answer RangeLocks::lock_held(const RangeRequest &request, const RangeBounds &b,
                                         RangeOwner *holder) {
  RangeOwnerRecord *owner = find_or_add_owner(request.owner);
  if (!owner) return Answer::kShort;
  Answer answer;
  if (Node *n = own_.waiting ? waiting_request(request, b) : nullptr) {
    Inside inside(memory_);
    NodeBounds<HardwareAtomics> asked(*n);
    answer = decide(*owner, n, {*asked, n->mode, 0, true}, nullptr, holder);
  } else if (owner->count) {
    answer = lock_near(*owner, request, b, holder);
  } else {
    answer = lock_range(*owner, {b, request.mode, List::kByChance, false}, holder);
  }
  if (answer == Answer::kWait) own_.waiting_print = fingerprint(request);
  if (owner->count == 0) drop_owner(owner);
  return answer;
}

// The worker's request that waits, if it is this one.  Its node may be wider than what was asked
// for.
RangeLocks::Node *RangeLocks::waiting_request(const RangeRequest &request, const RangeBounds &b) {
  if (own_.waiting_owner != request.owner) return nullptr;
  Node *n = list_.resolve(own_.waiting);
  return n && own_.waiting_print == fingerprint(request) && List::covering(*n, b) ? n : nullptr;
}

// The owner has ranges: it may hold this one already, and those that touch it become one.
RangeLocks::Answer RangeLocks::lock_near(RangeOwnerRecord &owner, const RangeRequest &request,
                                         RangeBounds b, RangeOwner *holder) {
  NodeBounds<HardwareAtomics> left, right;   // what b becomes a view of
  bool near = false, held = false, moved = false;
  List::Start start;
  {
    Inside inside(memory_);
    start = list_.scan_to_place(b, [&](Node *n) {
      if (n->owner != owner.id || n->tree != b.tree || !List::granted(*n)) return true;
      if (compare_to(*n, b.from) < 0 || (!b.to_end && compare_from(*n, b.to) > 0)) return true;
      near = true;
      held = n->mode >= request.mode && List::covering(*n, b);
      if (held || n->mode != request.mode) return !held;
      if (compare_from(*n, b.from) < 0) {
        left.read(*n);
        b.from = (*left).from;
        moved = true;
      }
      if (!b.to_end && (n->to_end || compare_to(*n, b.to) > 0)) {
        right.read(*n);
        b.to = (*right).to;
        b.to_end = n->to_end;
      }
      return true;
    });
    if (held) return Answer::kGranted;
  }
  if (moved || !memory_.is_inside()) start = {};
  return lock_range(owner, {b, request.mode, List::kByChance, near, start}, holder);
}

RangeLocks::Answer RangeLocks::lock_range(RangeOwnerRecord &owner, const NewRange &r,
                                          RangeOwner *holder) {
  if (owner.count >= std::max(kCoalesceAt, 2 * owner.coalesced) ||
      (owner.count >= 2 * owner.coalesced + 8 && memory_.is_short())) {
    if (memory_.is_inside()) return Answer::kShort;
    coalesce(owner);
  }
  Answer answer = ask(owner, r, holder);
  if (answer == Answer::kShort && owner.count > 1 && !memory_.is_inside()) {
    coalesce(owner);
    answer = ask(owner, {r.bounds, r.mode, 0, r.near}, holder);
  }
  return answer;
}

// The request as a node in list and chain.
RangeLocks::Answer RangeLocks::ask(RangeOwnerRecord &owner, const NewRange &r, RangeOwner *holder) {
  if (!memory_.reserve(List::cells_for(r.bounds) + kSpareCells)) return Answer::kShort;
  Inside inside(memory_);
  Node *n = list_.make(r.bounds, r.mode, owner.id);
  List::Tower *index_node = list_.insert(n, r.bounds, r.height, r.start);
  if (!index_node) return Answer::kShort;
  chain(owner, n);
  return decide(owner, n, r, index_node, holder);
}

// Inside.  A request that is told to wait is the worker's waiting one.
RangeLocks::Answer RangeLocks::decide(RangeOwnerRecord &owner, Node *n, const NewRange &r,
                                      List::Tower *index_node, RangeOwner *holder) {
  if (!list_.decide(n, r.bounds, holder, index_node)) {
    own_.waiting = list_.reference(n);
    own_.waiting_owner = owner.id;
    return Answer::kWait;
  }
  own_.waiting = 0;
  if (r.near) absorb(owner, *n, r.bounds);
  return Answer::kGranted;
}

void RangeLocks::withdraw() {
  if (own_.waiting == 0) return;
  Hold hold(*this, own_.waiting_owner.slot);
  RangeOwnerRecord *owner = find_owner(own_.waiting_owner);
  if (!owner) {
    own_.waiting = 0;
    return;
  }
  withdraw_waiting(*owner);
  if (owner->count == 0) drop_owner(owner);
}

void RangeLocks::withdraw_waiting(RangeOwnerRecord &owner) {
  Node *n = list_.resolve(own_.waiting);
  own_.waiting = 0;
  if (!n) return;
  unchain(owner, n);
  Inside inside(memory_);
  list_.remove(n);
}

[[gnu::flatten]] void RangeLocks::unlock_all(RangeOwner id) {
  bool all = false;
  if (id.slot == slot_)
    while (!all) {
      OwnHold hold(*this);
      if (!hold) break;
      all = release_some(id);
    }
  if (!all) unlock_as_other(id);
}

void RangeLocks::unlock_as_other(RangeOwner id) {
  Hold hold(*this, id.slot);
  while (!release_some(id)) {}
}

// True: that was all.
bool RangeLocks::release_some(RangeOwner id) {
  RangeOwnerRecord *owner = find_owner(id);
  if (!owner) return true;
  Inside inside(memory_);
  for (u32 i = 0; i < kReleasedAtOnce && owner->nodes; i++) {
    Node *n = owner->nodes;
    unchain(*owner, n);
    list_.remove(n);
  }
  if (owner->nodes) return false;
  drop_owner(owner);
  return true;
}

// ---- fewer, wider ranges

// Remove what lies inside a range that has been granted.
void RangeLocks::absorb(RangeOwnerRecord &owner, const Node &wider, const RangeBounds &b) {
  constexpr size_t kAtOnce = 64;
  Node *inside[kAtOnce];
  size_t n = 0;
  do {
    n = 0;
    list_.scan(b, [&](Node *other) {
      if (other == &wider || other->owner != owner.id || other->absorbed ||
          other->mode > wider.mode || !List::covered(*other, b) || !List::granted(*other))
        return true;
      other->absorbed = true;
      inside[n++] = other;
      return n < kAtOnce;
    });
    if (n) list_.announce_absorption(wider.tree);
    for (size_t i = 0; i < n; i++) {
      unchain(owner, inside[i]);
      list_.remove(inside[i]);
    }
  } while (n == kAtOnce);
}

// Trade what the owner holds for wider ranges, tree by tree.
void RangeLocks::coalesce(RangeOwnerRecord &owner) {
  for (RangeMode mode : {kRangeExclusive, kRangeShared}) {
    std::vector<Node *> nodes;
    for (Node *n = owner.nodes; n; n = next_of(n))
      if (n->mode == mode && List::granted(*n)) nodes.push_back(n);
    std::sort(nodes.begin(), nodes.end(), [](const Node *a, const Node *b) {
      NodeBounds<HardwareAtomics> bounds(*b);
      return compare_place(*a, b->tree, (*bounds).from) < 0;
    });
    for (size_t begin = 0, end; begin < nodes.size(); begin = end) {
      for (end = begin + 1; end < nodes.size() && nodes[end]->tree == nodes[begin]->tree; end++) {}
      coalesce_among(owner, std::span(nodes).subspan(begin, end - begin));
    }
  }
  owner.coalesced = owner.count;
}

// One range in place of all, or of each half.
void RangeLocks::coalesce_among(RangeOwnerRecord &owner, std::span<Node *> nodes) {
  if (nodes.size() < 2 || cover(owner, nodes)) return;
  coalesce_among(owner, nodes.first(nodes.size() / 2));
  coalesce_among(owner, nodes.subspan(nodes.size() / 2));
}

bool RangeLocks::cover(RangeOwnerRecord &owner, std::span<Node *> nodes) {
  NodeBounds<HardwareAtomics> first(*nodes.front());
  NodeBounds<HardwareAtomics> last;
  RangeBounds b = *first;
  const RangeMode mode = nodes.front()->mode;
  for (Node *n : nodes)
    if (!b.to_end && (n->to_end || compare_to(*n, b.to) > 0)) {
      last.read(*n);
      b.to = (*last).to;
      b.to_end = n->to_end;
    }
  {
    // Look before asking: another owner's request that meets this one waits for it.
    Inside inside(memory_);
    if (!list_.is_free(b, mode, owner.id)) return false;
  }
  RangeOwner holder;
  if (ask(owner, {b, mode, 0, true}, &holder) == Answer::kGranted) return true;
  withdraw_waiting(owner);
  return false;
}

// ---- owners

RangeOwnerRecord *RangeLocks::find_owner(RangeOwner id) {
  for (RangeOwnerRecord *o = shared_.owner_slots[id.slot].owners; o; o = o->following)
    if (o->id == id) return o;
  return nullptr;
}

RangeOwnerRecord *RangeLocks::find_or_add_owner(RangeOwner id) {
  if (RangeOwnerRecord *o = find_owner(id)) return o;
  RangeOwnerSlot &slot = shared_.owner_slots[id.slot];
  RangeOwnerRecord *o = &slot.first;
  if (slot.first_in_use) {
    if (!memory_.reserve(1)) return nullptr;
    o = static_cast<RangeOwnerRecord *>(memory_.take());
  }
  slot.first_in_use = true;
  o->id = id;
  o->following = slot.owners;
  o->nodes = nullptr;
  o->count = 0;
  o->coalesced = 0;
  slot.owners = o;
  return o;
}

void RangeLocks::drop_owner(RangeOwnerRecord *owner) {
  RangeOwnerSlot &slot = shared_.owner_slots[owner->id.slot];
  RangeOwnerRecord **link = &slot.owners;
  while (*link != owner) link = &(*link)->following;
  *link = owner->following;
  if (owner == &slot.first)
    slot.first_in_use = false;
  else
    memory_.put(owner);
}

// A node's link: number of the one before in the upper half (the first one's means nothing), of the
// next in the lower.
RangeLocks::Node *RangeLocks::next_of(const Node *n) const {
  return node_at(n->link.load(std::memory_order_relaxed) & 0xffffffff);
}
RangeLocks::Node *RangeLocks::node_at(u64 number) const {
  return number ? static_cast<Node *>(memory_.cell(number)) : nullptr;
}

void RangeLocks::set_link(Node *n, u64 before, u64 next) {
  n->link.store(before << 32 | next, std::memory_order_relaxed);
}

void RangeLocks::chain(RangeOwnerRecord &owner, Node *n) {
  const u64 next = owner.nodes ? memory_.number(owner.nodes) : 0;
  set_link(n, 0, next);
  if (next)
    set_link(owner.nodes, memory_.number(n),
             owner.nodes->link.load(std::memory_order_relaxed) & 0xffffffff);
  owner.nodes = n;
  owner.count++;
}

void RangeLocks::unchain(RangeOwnerRecord &owner, Node *n) {
  const u64 link = n->link.load(std::memory_order_relaxed), before = link >> 32,
            next = link & 0xffffffff;
  owner.count--;
  if (owner.nodes == n) {
    owner.nodes = node_at(next);
    return;
  }
  auto *left = static_cast<Node *>(memory_.cell(before));
  set_link(left, left->link.load(std::memory_order_relaxed) >> 32, next);
  if (Node *right = node_at(next))
    set_link(right, before, right->link.load(std::memory_order_relaxed) & 0xffffffff);
}

// ---- for a view

size_t RangeLocks::list(RangeShared &shared, ls_range_info *out, size_t cap) {
  std::lock_guard one(shared.viewer);
  Memory memory(shared.memory, shared.memory.slot_count - 1);
  List list(shared.list, memory);
  size_t n = 0;
  Inside inside(memory);
  list.each([&](Node *node) {
    if (n++ >= cap) return;
    NodeBounds<HardwareAtomics> bounds(*node);
    const RangeBounds &b = *bounds;
    ls_range_info &info = out[n - 1];
    info = {};
    info.tree = {static_cast<u32>(b.tree.high >> 32), static_cast<u32>(b.tree.high),
                 static_cast<u32>(b.tree.low >> 32),
                 static_cast<i32>(static_cast<u32>(b.tree.low))};
    info.owner = {node->owner.slot, node->owner.number};
    info.mode = static_cast<ls_range_mode>(node->mode);
    info.granted = List::granted(*node);
    info.to_end = b.to_end;
    info.from_len = static_cast<u8>(info_key(info.from, b.from));
    info.to_len = static_cast<u8>(info_key(info.to, b.to));
  });
  return n;
}

}  // namespace ls
