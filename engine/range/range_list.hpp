// range_list.hpp - the lock-free list of all ranges: where requests meet, and which goes first
// (README.md has the proofs).
//
// The bottom level is one sorted linked list of nodes (tree, from), held and waiting ranges alike;
// equal ones in any order.  Above it an index: some of the nodes are index nodes, a skip list of
// its own.  An index node knows which ranges that begin before it reach beyond its place (its span
// list), so a search for what overlaps a range begins at the last index node before it.
//
// Index nodes outlive their ranges for a while, as places (vacant ones): then workers at different
// places find different index nodes to link their ranges after, and write nothing that others
// read.  Each slot keeps the last few that it released.
//
// A request:  link (the compare-and-swap that makes it visible), announce (to the span lists of the
// index nodes inside it), then decide: look at all that overlaps.  Nothing in the way: granted.
// Otherwise it takes a place in the queue and looks again.
//
//   LIST-1  A node is found by every scan that begins after its announce ended, until it is
//           removed.
//   LIST-2  rank changes kAnnouncing -> kUndecided (its owner), then only by compare-and-swap:
//           kUndecided -> kGranted (its owner, having seen no conflict), kUndecided -> ticket (any
//           worker), ticket -> kGranted (its owner).
//   LIST-3  A request draws its ticket, or is given it, after its announce has ended: until then it
//           is kAnnouncing, unless it was linked where there was nothing to announce.
//   LIST-4  Of two conflicting requests the one with the later ticket waits, and each waits for
//           what is granted, except: a request goes before another that waits for a granted range
//           of the same owner.
//   LIST-5  A node is removed by the worker that releases it: first its life, then its index links
//           from above, then its bottom link.  An index node's life ends when its range does; its
//           links are left to be removed later by the same slot.
//   LIST-6  Nodes in place of which their owner goes on holding a wider range are removed after
//           absorbed(tree) was counted up.  A request that finds nothing in the way has seen the
//           same count before and after.
//   LIST-7  A node's incarnation ends after its link was marked and before its cell is retired; the
//           mark goes only when the cell is used again, by a store with release.  So the
//           incarnation that is read before something is linked behind the node is the node's.  A
//           worker that reads its link, without a mark, and then the same incarnation, has seen
//           the link of a node in the list.
//
// All accesses to shared words are sequentially consistent (costs nothing but at stores, which are
// few); the proofs use it.  Everything but the constructor runs inside RangeMemory::enter .. leave.
// Calls for one owner come one at a time.
#pragma once
#include <utility>

#include "base/random.hpp"
#include "range/range_node.hpp"

namespace ls {

template <typename P>
class RangeList {
  template <typename T>
  using Atomic = typename P::template Atomic<T>;

 public:
  using Memory = RangeMemory<P>;
  using Node = RangeNode<P>;
  using Tower = RangeTower<P>;
  using Span = RangeSpan<P>;
  using Tail = RangeTail<P>;

  static constexpr u32 kTreeCounters = 64;
  struct alignas(kCacheLine) Counter {
    Atomic<u64> value{0};
  };
  struct Shared {
    alignas(kRangeCellBytes) Node head;
    alignas(kRangeCellBytes) Tower head_tower;
    Atomic<u64> levels{0};                             // of the index: there is nothing above
    alignas(kCacheLine) Atomic<u64> tickets{kFirstTicket};
    Counter absorbed[kTreeCounters];                   // by hash of the tree
  };
  // Shared is in zeroed memory.
  static void create(Shared &shared) {
    shared.head.tower = &shared.head_tower;
    shared.head_tower.node = &shared.head;
    shared.head_tower.height = kTowerLevels;
  }

  RangeList(Shared &shared, Memory &memory) : shared_(shared), memory_(memory) {}

  // Where to begin: an index node before a place, and the next one, if it is known and not before
  // the place.  before: the last node before the place, if it is known, `after` what its link said,
  // and how many were passed on the way.
  struct Start {
    Tower *index_node = nullptr, *next = nullptr;
    Node *before = nullptr, *after = nullptr;
    u32 passed = 0;
  };

  // ---- nodes

  static u32 cells_for(const RangeBounds &b) { return 1 + range_tail_cells<P>(b); }

  // A node that no other worker sees yet, out of reserved cells.
  Node *make(const RangeBounds &b, RangeMode mode, RangeOwner owner) {
    auto *n = static_cast<Node *>(memory_.take());
    n->tree = b.tree;
    std::memcpy(n->from, b.from.word, sizeof n->from);
    std::memcpy(n->to, b.to.word, sizeof n->to);
    n->from_len = static_cast<u16>(b.from.len);
    n->to_len = static_cast<u16>(b.to_end ? 0 : b.to.len);
    n->to_end = b.to_end;
    n->mode = mode;
    n->owner = owner;
    n->absorbed = false;
    n->tower = nullptr;
    if (n->has_tail()) n->tail = make_tails(b);
    n->life.store(n->life.load(std::memory_order_relaxed) | kAlive, std::memory_order_release);
    return n;
  }

  // A node that names this one as long as it is alive; 0 names none.
  u64 reference(const Node *n) const {
    return memory_.number(n) << 32 | (n->life.load(std::memory_order_relaxed) & (kAlive - 1));
  }
  // The node, or null if it is not alive any more.  If it is, it stays what it is until the caller
  // leaves.
  Node *resolve(u64 reference) const {
    if (reference == 0) return nullptr;
    auto *n = static_cast<Node *>(memory_.cell(reference >> 32));
    return n->life.load() == ((reference & (kAlive - 1)) | kAlive) ? n : nullptr;
  }
  static bool alive(const Node *n) { return n->life.load() & kAlive; }

  // ---- a request

  static constexpr u32 kByChance = ~0u;

  // Make the node visible, to every scan that begins from now on, and return an index node before
  // it.  Null: out of cells, the node is gone again.  height: levels of the index in which it shall
  // stand, 0: none.  start: from find_start, or nothing.
  Tower *insert(Node *n, const RangeBounds &b, u32 height = kByChance, Start start = {}) {
    Place place;
    if (start.before) {
      place.before[0] = start.index_node;
      place.node_before = start.before;
      place.node_after = start.after;
      place.passed = start.passed;
    } else {
      find_at_bottom(b.tree, b.from, start, place);
    }
    const bool by_chance = height == kByChance;
    if (by_chance) height = place.passed < kManyPassed ? 0 : random_height(kLongStep);
    for (;;) {
      if (height && !n->tower) become_index_node(n, height, b, place);
      const bool announces = place.node_after && begins_before_end(*place.node_after, b);
      n->rank.store(announces ? kAnnouncing : kUndecided, std::memory_order_relaxed);
      n->next.store(word(place.node_after), std::memory_order_release);   // LIST-7
      if (!n->has_tail())
        n->before = place.node_before == &shared_.head ? 0 : reference(place.node_before);
      if (swing(place.node_before->next, place.node_after, n)) break;
      if (by_chance && !n->tower) height = random_height(kMeetingStep);
      if (n->tower)
        find(b.tree, b.from, place);
      else
        find_at_bottom(b.tree, b.from, {.index_node = place.before[0]}, place);
    }
    if (!announce(n, b)) {
      remove(n);
      return nullptr;
    }
    if (n->rank.load(std::memory_order_relaxed) == kAnnouncing) n->rank.store(kUndecided);
    if (n->tower && promote(n, b, place.before[0])) index(n, b, place);
    return place.before[0];
  }

  // Granted; or false, and *holder is the owner in the way.  Repeated when that has left.
  // index_node: what insert returned, if the caller has not left since.
  bool decide(Node *n, const RangeBounds &b, RangeOwner *holder, Tower *index_node = nullptr) {
    Atomic<u64> &absorbed = absorbed_count(b.tree);
    u64 rank = n->rank.load();
    LS_ASSERT(rank != kAnnouncing && rank != kGranted);  // LIST-2, LIST-3
    if (rank == kUndecided) {
      const u64 absorbed_before = absorbed.load();
      bool conflict = false;
      scan_from(index_node, b, [&](Node *other) {
        return !(conflict = conflicting(*n, *other) && overlapping(*other, b));
      });
      // LIST-6
      if (!conflict && absorbed.load() == absorbed_before &&
          n->rank.compare_exchange_strong(rank, kGranted))
        return true;
    }
    return decide_in_queue(n, b, holder);
  }

  // Whether a request for these bounds would be granted now.
  bool is_free(const RangeBounds &b, RangeMode mode, RangeOwner owner) {
    bool free = true;
    scan(b, [&](Node *other) {
      if (other->owner == owner || (mode == kRangeShared && other->mode == kRangeShared) ||
          !overlapping(*other, b))
        return true;
      return free = !granted(*other) && waits_for(owner, *other);
    });
    return free;
  }

  // ---- removal

  // The node is no range any more, and is taken out of the list and its cells retired, at once or
  // (an index node) later (LIST-5).
  void remove(Node *n) {
    n->life.store(n->life.load(std::memory_order_relaxed) & ~kAlive, std::memory_order_release);
    if (!n->tower && !n->has_tail()) {
      const u64 after = n->next.fetch_or(kRemoved);
      end_incarnation(n);
      if (!unlink(n, after)) sweep(n->tree, short_from(*n));
      memory_.retire(n);
    } else if (n->has_tail()) {
      take_out(n);
    } else {
      keep_vacant(n);
    }
  }
  // Take out the slot's vacant index nodes, too.
  [[gnu::noinline]] void forget_vacant() {
    for (u64 &number : memory_.slot().vacant)
      if (const u64 n = std::exchange(number, 0)) take_out(static_cast<Node *>(memory_.cell(n)));
  }

  // LIST-6: before nodes of a tree are removed that a wider node of the same owner replaces.
  void announce_absorption(const RangeTree &tree) { absorbed_count(tree).fetch_add(1); }

  // ---- looking

  // For a caller that will link a node there.
  Start find_start(const RangeTree &tree, const RangeKey &key) {
    Start start;
    start.index_node = find_index_node(tree, key, &start.next);
    // to write: the new node will be linked here, most often
    __builtin_prefetch(start.index_node->node, 1);
    return start;
  }
  // The last index node less than the key; *next: the one behind it, or null.
  Tower *find_index_node(const RangeTree &tree, const RangeKey &key, Tower **next = nullptr) {
    for (;;) {
      Tower *before = &shared_.head_tower, *after = nullptr;
      u64 level = shared_.levels.load();
      while (level > 0 && descend(static_cast<u32>(level - 1), tree, key, &before, &after)) level--;
      if (level > 0) continue;
      if (next) *next = after;
      return before;
    }
  }

  // Every alive node that overlaps b, and some others, as long as `visit` says true; the nodes of
  // LIST-1 are among them.  kTouching: those that begin at its end, too.
  template <bool kTouching = false, typename Visit>
  void scan(const RangeBounds &b, Visit &&visit) {
    scan_from<kTouching>(nullptr, b, visit);
  }
  // index node: one before b, or null.
  template <bool kTouching = false, typename Visit>
  [[gnu::always_inline]] void scan_from(Tower *index_node, const RangeBounds &b, Visit &&visit) {
    for (;; index_node = nullptr) {
      if (!index_node) index_node = find_index_node(b.tree, b.from);
      u64 link = index_node->node->next.load();
      if (link & kRemoved) continue;
      if (!visit_index_node(index_node, visit)) return;
      bool go_on = true;
      for (Node *n = node(link); go_on && n && begins_before_end<kTouching>(*n, b);
           n = node(link)) {
        link = n->next.load();
        if (alive(n)) go_on = visit(n);
      }
      return;
    }
  }
  // The same for a caller that will ask for b then, and begin where this says.
  template <typename Visit>
  [[gnu::always_inline]] Start scan_to_place(const RangeBounds &b, Visit &&visit) {
    for (;;) {
      Start start = find_start(b.tree, b.from);
      start.before = start.index_node->node;
      u64 link = start.before->next.load();
      if (link & kRemoved) continue;
      if (!visit_index_node(start.index_node, visit)) return {};
      Node *n;
      for (; (n = node(link)) && compare_place(*n, b.tree, b.from) < 0; start.passed++) {
        start.before = n;
        link = n->next.load();
        if (alive(n) && !visit(n)) return {};
      }
      start.after = n;
      if (link & kRemoved) start.before = nullptr;
      for (; n && begins_before_end<true>(*n, b); n = node(n->next.load()))
        if (alive(n) && !visit(n)) return {};
      return start;
    }
  }

  // All nodes there are.
  template <typename Visit>
  void each(Visit visit) {
    for (Node *n = node(shared_.head.next.load()); n; n = node(n->next.load()))
      if (alive(n)) visit(n);
  }

  // ---- relations between ranges

  static bool conflicting(const Node &a, const Node &b) {
    return a.owner != b.owner && (a.mode == kRangeExclusive || b.mode == kRangeExclusive);
  }
  static bool overlapping(const Node &n, const RangeBounds &b) {
    return n.tree == b.tree && (b.to_end || compare_from(n, b.to) < 0) && compare_to(n, b.from) > 0;
  }
  static bool covering(const Node &n, const RangeBounds &b) {
    return n.tree == b.tree && compare_from(n, b.from) <= 0 &&
           (n.to_end || (!b.to_end && compare_to(n, b.to) >= 0));
  }
  static bool covered(const Node &n, const RangeBounds &b) {
    return n.tree == b.tree && compare_from(n, b.from) >= 0 &&
           (b.to_end || (!n.to_end && compare_to(n, b.to) <= 0));
  }
  static bool granted(const Node &n) { return n.rank.load() == kGranted; }

 private:
  // A node becomes an index node by chance, where a search has to pass many nodes at the bottom, or
  // where another has written to the same link at the same time: they shall find different ones.
  static constexpr u32 kManyPassed = 16, kLongStep = 8, kMeetingStep = 2;
  static constexpr u32 kIndexStep = 4;

  // Where something with a key belongs: what is before it is less, what is after it is not.
  struct Place {
    Tower *before[kTowerLevels], *after[kTowerLevels];
    Node *node_before, *node_after;
    u32 passed;   // nodes between the index node and the place
  };

  static Node *node(u64 link) { return reinterpret_cast<Node *>(link & ~kRemoved); }
  static Tower *tower(u64 link) { return reinterpret_cast<Tower *>(link & ~kRemoved); }
  static u64 word(const void *p) { return reinterpret_cast<u64>(p); }
  static bool swing(Atomic<u64> &link, const void *from, const void *to) {
    u64 expected = word(from);
    return link.compare_exchange_strong(expected, word(to));
  }
  static Atomic<u64> &link_of(Node *n, u32) { return n->next; }
  static Atomic<u64> &link_of(Tower *t, u32 level) { return t->links[level]; }

  Atomic<u64> &absorbed_count(const RangeTree &tree) {
    return shared_.absorbed[((tree.high ^ tree.low) * 0x9e3779b97f4a7c15u) >> 58].value;
  }

  // Levels of the index in which a new node shall stand, one in `step` of them.
  [[gnu::noinline]] u32 random_height(u32 step) {
    typename Memory::Slot &slot = memory_.slot();
    u64 state = slot.chance ? slot.chance : (memory_.slot_number() + 1) * 0x9e3779b97f4a7c15u;
    u32 chance = next_random(state);
    slot.chance = state;
    if (chance % step != 0) return 0;
    chance /= step;
    u32 height = 1;
    for (; height < kTowerLevels && chance % kIndexStep == 0; chance /= kIndexStep) height++;
    return height;
  }

  // ---- searching

  // What comes after `link`, after taking out what has been removed.  False: the holder of the link
  // has been removed itself.
  template <typename T>
  static bool follow(Atomic<u64> &link, u32 level, T **after) {
    for (;;) {
      u64 there = link.load();
      if (there & kRemoved) return false;
      auto *next = reinterpret_cast<T *>(there);
      u64 behind = next ? link_of(next, level).load() : 0;
      if (behind & kRemoved) {
        link.compare_exchange_strong(there, behind & ~kRemoved);
        continue;
      }
      *after = next;
      return true;
    }
  }

  // One level of the index: from *before to the last tower that is less.  False: begin again.
  bool descend(u32 level, const RangeTree &tree, const RangeKey &key, Tower **before,
               Tower **after) {
    for (;;) {
      if (!follow((*before)->links[level], level, after)) return false;
      if (!*after || compare_place(**after, tree, key) >= 0) return true;
      *before = *after;
    }
  }

  [[gnu::noinline]] void find(const RangeTree &tree, const RangeKey &key, Place &place) {
    while (!try_find<false>(tree, key, place)) {}
  }
  // Takes out everything with this key that has been removed, at all levels.
  [[gnu::noinline]] void sweep(const RangeTree &tree, const RangeKey &key) {
    Place place;
    while (!try_find<true>(tree, key, place)) {}
  }
  template <bool kSweep>
  bool try_find(const RangeTree &tree, const RangeKey &key, Place &place) {
    Tower *before = &shared_.head_tower;
    for (u32 level = static_cast<u32>(shared_.levels.load()); level-- > 0;) {
      if (!descend(level, tree, key, &before, &place.after[level])) return false;
      place.before[level] = before;
      if (kSweep && !pass_equal(place.after[level], level, tree, key)) return false;
    }
    return walk(before, nullptr, tree, key, place) &&
           (!kSweep || pass_equal(place.node_after, 0, tree, key));
  }
  // The bottom, from an index node on.  next: an index node that is not less, or null; its node is
  // not looked at.
  bool walk(Tower *index_node, const Tower *next, const RangeTree &tree, const RangeKey &key,
            Place &place) {
    Node *n = index_node->node;
    for (place.passed = 0;; place.passed++) {
      if (next && n->next.load() == word(next->node)) {
        place.node_after = next->node;
        break;
      }
      if (!follow(n->next, 0, &place.node_after)) return false;
      if (!place.node_after || compare_place(*place.node_after, tree, key) >= 0) break;
      n = place.node_after;
    }
    place.node_before = n;
    return true;
  }
  // As find, but of the index only before[0].
  void find_at_bottom(const RangeTree &tree, const RangeKey &key, Start start, Place &place) {
    for (;; start = {}) {
      if (!start.index_node) start = find_start(tree, key);
      place.before[0] = start.index_node;
      if (walk(start.index_node, start.next, tree, key, place)) return;
    }
  }

  template <typename T>
  bool pass_equal(T *at, u32 level, const RangeTree &tree, const RangeKey &key) {
    while (at && compare_place(*at, tree, key) == 0)
      if (!follow(link_of(at, level), level, &at)) return false;
    return true;
  }

  template <bool kOrAtEnd = false>
  static bool begins_before_end(const Node &n, const RangeBounds &b) {
    int c = compare(n.tree, b.tree);
    return c < 0 || (c == 0 && (b.to_end || compare_from(n, b.to) < (kOrAtEnd ? 1 : 0)));
  }

  // ---- index nodes

  // Tell the index nodes inside the range that it reaches beyond their place.
  bool announce(Node *n, const RangeBounds &b) {
    for (Node *m = node(n->next.load()); m && begins_before_end(*m, b); m = node(m->next.load()))
      if (m->tower && !add_span(m->tower, reference(n))) return false;
    return true;
  }

  // Make the node's span list complete: a range linked later announces itself, one linked earlier
  // is found here.  False: out of cells.
  [[gnu::noinline]] bool promote(Node *n, const RangeBounds &b, Tower *index_node) {
    for (;; index_node = find_index_node(b.tree, b.from)) {
      u64 link = index_node->node->next.load();
      if (link & kRemoved) continue;
      bool room = true;
      auto add = [&](u64 entry) {
        Node *m = resolve(entry);
        if (m && m->tree == b.tree && compare_to(*m, b.from) > 0)
          room = room && add_span(n->tower, entry);
      };
      if (index_node != &shared_.head_tower) add(reference(index_node->node));
      each_span(index_node, add);
      for (Node *m = node(link); m != n; m = node(m->next.load())) {
        LS_ASSERT(m != nullptr);
        add(reference(m));
      }
      return room;
    }
  }

  // Not linked yet.  `levels` is raised before the place is looked for in all of them.
  [[gnu::noinline]] void become_index_node(Node *n, u32 height, const RangeBounds &b,
                                           Place &place) {
    n->tower = make_tower(n, height);
    for (u64 levels = shared_.levels.load(); levels < height;)
      if (shared_.levels.compare_exchange_strong(levels, height)) break;
    find(b.tree, b.from, place);
  }

  // Stand in the index.  place: from a search after `levels` was raised.
  [[gnu::noinline]] void index(Node *n, const RangeBounds &b, Place &place) {
    for (u32 level = 0; level < n->tower->height; level++) {
      for (;;) {
        n->tower->links[level].store(word(place.after[level]), std::memory_order_relaxed);
        if (swing(place.before[level]->links[level], place.after[level], n->tower)) break;
        find(b.tree, b.from, place);
      }
    }
  }

  // An index node at which a scan begins, and what it knows of.
  template <typename Visit>
  [[gnu::always_inline]] bool visit_index_node(Tower *index_node, Visit &&visit) {
    if (index_node == &shared_.head_tower) return true;   // nothing begins before it
    if (alive(index_node->node) && !visit(index_node->node)) return false;
    bool go_on = true;
    each_span(index_node, [&](u64 entry) {
      if (Node *n = resolve(entry); n && go_on) go_on = visit(n);
    });
    return go_on;
  }
  template <typename Visit>
  [[gnu::always_inline]] void each_span(Tower *t, Visit &&visit) {
    for (Atomic<u64> &entry : t->entries) visit(entry.load());
    for (auto *c = span_of(t->next.load()); c; c = span_of(c->next.load()))
      for (Atomic<u64> &entry : c->entries) visit(entry.load());
  }
  static Span *span_of(u64 link) { return reinterpret_cast<Span *>(link & ~kRemoved); }

  [[gnu::noinline]] bool add_span(Tower *t, u64 reference) {
    for (;;) {
      Atomic<u64> *more = &t->next;
      if (add_to(t->entries, reference)) return true;
      u64 link;
      while (link = more->load(), span_of(link) != nullptr) {
        Span *c = span_of(link);
        if (add_to(c->entries, reference)) return true;
        more = &c->next;
      }
      // the index node is being removed: no search begins there any more
      if (link & kRemoved) return true;
      auto *c = static_cast<Span *>(memory_.try_take());
      if (!c) return false;
      for (Atomic<u64> &entry : c->entries) entry.store(0, std::memory_order_relaxed);
      c->entries[0].store(reference, std::memory_order_relaxed);
      c->next.store(0, std::memory_order_release);   // LIST-7
      if (more->compare_exchange_strong(link, word(c))) return true;
      memory_.put(c);
    }
  }
  // Into a free entry, or that of a range that is gone.
  template <size_t kEntries>
  bool add_to(Atomic<u64> (&entries)[kEntries], u64 reference) {
    for (Atomic<u64> &entry : entries) {
      u64 old = entry.load();
      while (old != reference && !resolve(old))
        if (entry.compare_exchange_strong(old, reference)) return true;
      if (old == reference) return true;
    }
    return false;
  }

  // ---- the queue

  [[gnu::noinline]] bool decide_in_queue(Node *n, const RangeBounds &b, RangeOwner *holder) {
    Atomic<u64> &absorbed = absorbed_count(b.tree);
    for (;;) {
      const u64 absorbed_before = absorbed.load();
      u64 rank = n->rank.load();
      bool conflict = false, blocked = false, by_holder = false;
      scan(b, [&](Node *other) {
        if (!conflicting(*n, *other) || !overlapping(*other, b)) return true;
        conflict = true;
        if (rank == kUndecided) return false;
        if (!goes_first(*other, *n, rank)) return true;
        blocked = true;
        by_holder = other->rank.load() == kGranted;   // rather than one that only waits
        *holder = other->owner;
        return !by_holder;
      });
      if (rank == kUndecided && conflict) {
        queue(n);
        continue;
      }
      if (blocked) return false;
      if (absorbed.load() != absorbed_before) continue;   // LIST-6
      if (n->rank.compare_exchange_strong(rank, kGranted)) return true;
    }
  }

  void queue(Node *n) {
    u64 undecided = kUndecided;
    if (n->rank.load() == kUndecided)
      n->rank.compare_exchange_strong(undecided, shared_.tickets.fetch_add(1));
  }

  // Whether `other`, which conflicts, goes before `mine` with this ticket (LIST-4).
  bool goes_first(Node &other, const Node &mine, u64 ticket) {
    u64 rank;
    // It may get its ticket only now, or, while it is kAnnouncing, later: then it comes later.
    while ((rank = other.rank.load()) == kUndecided) queue(&other);
    if (rank == kGranted) return true;
    return rank < ticket && !waits_for(mine.owner, other);
  }

  // Whether `other` waits for a range that `owner` holds.
  [[gnu::noinline]] bool waits_for(RangeOwner owner, const Node &other) {
    bool found = false;
    NodeBounds<P> bounds(other);
    scan(*bounds, [&](Node *held) {
      return !(found = held->owner == owner && conflicting(other, *held) &&
                       overlapping(*held, *bounds) && granted(*held));
    });
    return found;
  }

  // ---- making and unmaking

  // In place of the oldest of the slot's.
  [[gnu::noinline]] void keep_vacant(Node *n) {
    u64 &oldest = memory_.slot().vacant[memory_.slot().next_vacant++ % kVacantKept];
    const u64 number = std::exchange(oldest, memory_.number(n));
    if (number) take_out(static_cast<Node *>(memory_.cell(number)));
    if (memory_.is_short()) forget_vacant();
  }

  // Out of the list (LIST-5), and retire what it was made of.
  [[gnu::noinline]] void take_out(Node *n) {
    Tower *t = n->tower;
    if (t)
      for (u32 level = t->height; level-- > 0;) t->links[level].fetch_or(kRemoved);
    n->next.fetch_or(kRemoved);
    end_incarnation(n);
    if (n->has_tail()) {
      NodeBounds<P> bounds(*n);
      sweep(n->tree, (*bounds).from);
      for (Tail *tail = n->tail; tail;) {
        Tail *next = tail->following();
        memory_.retire(tail);
        tail = next;
      }
    } else {
      sweep(n->tree, short_from(*n));
    }
    if (t) retire_tower(t);
    memory_.retire(n);
  }

  // LIST-7
  static void end_incarnation(Node *n) {
    n->life.store((n->life.load(std::memory_order_relaxed) + 1) & (kAlive - 1),
                  std::memory_order_release);
  }

  // Without a search from above, if the node after which it was linked is still there.  That one's
  // cell may be anything by now; if its link is not marked and the incarnation is the same (looked
  // at in this order), it is in the list (LIST-7), and stays what it is until the caller leaves.
  bool unlink(Node *n, u64 after) {
    Node *before = n->before ? static_cast<Node *>(memory_.cell(n->before >> 32)) : &shared_.head;
    const u64 link = before->next.load();
    if (link & kRemoved) return false;
    if (n->before && ((before->life.load() ^ n->before) & (kAlive - 1)) != 0) return false;
    if (link == word(n) && swing(before->next, n, node(after))) return true;
    // Others have come between.
    const RangeKey from = short_from(*n);
    Node *at = before;
    do {
      Node *next;
      if (!follow(at->next, 0, &next)) return false;
      at = next;
    } while (at && compare_place(*at, n->tree, from) <= 0);
    return true;
  }
  // Of a node without tails.
  static RangeKey short_from(const Node &n) {
    RangeKey from;
    std::memcpy(from.word, n.from, sizeof n.from);
    from.len = n.from_len;
    return from;
  }

  [[gnu::noinline]] Tail *make_tails(const RangeBounds &b) {
    Tail *first = nullptr, *last = nullptr;
    u32 from_len = b.from.tail_len(), bytes = from_len + (b.to_end ? 0 : b.to.tail_len());
    for (u32 done = 0; done < bytes;) {
      auto *t = static_cast<Tail *>(memory_.take());
      t->next.store(0, std::memory_order_release);   // LIST-7
      if (last)
        last->next.store(word(t), std::memory_order_release);
      else
        first = t;
      last = t;
      for (u32 i = 0; i < Tail::kBytes && done < bytes; i++, done++)
        t->bytes[i] = done < from_len ? b.from.tail[done] : b.to.tail[done - from_len];
    }
    return first;
  }

  [[gnu::noinline]] Tower *make_tower(Node *n, u32 height) {
    auto *t = static_cast<Tower *>(memory_.take());
    t->node = n;
    t->tree = n->tree;
    t->from0 = n->from[0];
    t->height = height;
    for (Atomic<u64> &link : t->links) link.store(0, std::memory_order_relaxed);
    for (Atomic<u64> &entry : t->entries) entry.store(0, std::memory_order_relaxed);
    t->next.store(0, std::memory_order_release);   // LIST-7
    return t;
  }

  [[gnu::noinline]] void retire_tower(Tower *t) {
    for (u64 link = t->next.fetch_or(kRemoved); span_of(link);) {
      Span *c = span_of(link);
      link = c->next.fetch_or(kRemoved);
      memory_.retire(c);
    }
    memory_.retire(t);
  }

  Shared &shared_;
  Memory &memory_;
};

}  // namespace ls
