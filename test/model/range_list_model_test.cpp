// The lock-free list of ranges in every order of its steps (interleavings.hpp), for three threads:
// never two conflicting grants, first come first served, nothing lost.  LS_INTERRUPTIONS=2 looks
// deeper (a minute in a release build), 3 for hours.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "model/interleavings.hpp"
#include "range/range_latch.hpp"
#include "range/range_list.hpp"

namespace ls::test {
namespace {

// Cells come back as soon as they may: each one that is retired tries to end the epoch, and goes to
// the session that asks next.
struct Supplier : ModelAtomics {
  static constexpr u32 kCellBatch = 1, kAdvanceEvery = 1;
};
using Memory = RangeMemory<Supplier>;
using List = RangeList<Supplier>;
using Node = List::Node;

constexpr u32 kThreads = 3, kSlots = kThreads + 1, kCells = 64;   // the last slot sets up

struct Ask {
  const char *from, *to;
  RangeMode mode;
  u32 height = 0;
  bool looks_first = false;   // as an owner with ranges does
};

RangeBounds bounds_of(const Ask &ask) {
  auto key = [](const char *text) {
    return range_key(reinterpret_cast<const u8 *>(text), static_cast<u32>(std::strlen(text)));
  };
  return {{1, 1}, key(ask.from), key(ask.to), false};
}

// The state of one run.
class World {
 public:
  World() {
    std::memset(cells_.get(), 0, (kCells + 1) * kRangeCellBytes);
    memory_.cells =
        reinterpret_cast<u8 *>((reinterpret_cast<uintptr_t>(cells_.get()) + 63) / 64 * 64) -
        kRangeCellBytes;
    memory_.cell_count = kCells;
    memory_.slot_count = kSlots;
    memory_.slots = slots_;
    List::create(list_);
  }

  struct Held {
    u32 owner;
    Ask ask;
    Node *node;
    bool granted;
  };

  // A thread's, or the setup's, view.
  class Session {
   public:
    Session(World &world, u32 slot, u32 owner)
        : world_(world), memory_(world.memory_, slot), list_(world.list_, memory_), owner_(owner) {
      reserve();
    }
    // Ask; a request that has to wait stays in the list.
    Held *lock(const Ask &ask) {
      reserve();
      const u64 begin = world_.clock_++;
      memory_.enter();
      RangeBounds b = bounds_of(ask);
      List::Start start;
      if (ask.looks_first) start = list_.scan_to_place(b, [](Node *) { return true; });
      Node *n = list_.make(b, ask.mode, {owner_, 1});
      List::Tower *index_node = list_.insert(n, b, ask.height, start);
      if (!index_node) Interleavings::fail("out of cells");
      Held *h = world_.add({owner_, ask, n, false});
      again(h, begin, index_node);
      memory_.leave();
      return h;
    }
    bool retry(Held *h) {
      memory_.enter();
      bool granted = again(h, world_.clock_++, nullptr);
      memory_.leave();
      return granted;
    }
    void release(Held *h) {
      world_.forget(h);
      memory_.enter();
      const bool index_node = h->node->tower != nullptr;
      list_.remove(h->node);
      // its cell does not come back before this session leaves
      if (!index_node) world_.check_unlinked(h->node);
      memory_.leave();
    }
    // What the list must not do: the node keeps its incarnation when it is taken out.
    void release_in_the_same_life(Held *h) {
      Node *n = h->node;
      const u64 life = n->life.load(std::memory_order_relaxed);
      release(h);
      n->life.store(life & ~kAlive, std::memory_order_relaxed);
    }
    // The index nodes that are left of what was released go, too.
    void forget_vacant() {
      memory_.enter();
      list_.forget_vacant();
      memory_.leave();
    }
    // One wide node in place of others, as RangeLocks does.  counted: with LIST-6.
    void replace(const Ask &wide, std::initializer_list<Held *> parts, bool counted) {
      Held *h = lock(wide);
      if (!h->granted) Interleavings::fail("a range that is held in parts was not granted");
      memory_.enter();
      if (counted) list_.announce_absorption({1, 1});
      for (Held *part : parts) {
        world_.forget(part);
        list_.remove(part->node);
      }
      memory_.leave();
    }
    // What the lock must not do: look first, then insert.
    void lock_without_looking_again(const Ask &ask) {
      reserve();
      memory_.enter();
      RangeBounds b = bounds_of(ask);
      if (list_.is_free(b, ask.mode, {owner_, 1})) {
        Node *n = list_.make(b, ask.mode, {owner_, 1});
        if (!list_.insert(n, b, ask.height)) Interleavings::fail("out of cells");
        world_.grant(world_.add({owner_, ask, n, false}));
      }
      memory_.leave();
    }

   private:
    // As many as any request here needs: a node, a tower, and some for span lists.
    void reserve() {
      if (!memory_.reserve(4)) Interleavings::fail("no cells");
    }
    bool again(Held *h, u64 begin, List::Tower *index_node) {
      RangeOwner holder;
      if (list_.decide(h->node, bounds_of(h->ask), &holder, index_node)) {
        world_.check_order(h, begin);
        world_.grant(h);
      } else {
        world_.queued(h);
      }
      return h->granted;
    }

    World &world_;
    Memory memory_;
    List list_;
    u32 owner_;
  };

  Memory::Shared &memory() { return memory_; }

  // What is retired cannot be reached any more.
  void check_unlinked(const Node *n) {
    auto next = [](const Node &at) {
      return reinterpret_cast<Node *>(at.next.load(std::memory_order_relaxed) & ~kRemoved);
    };
    for (const Node *at = next(list_.head); at; at = next(*at))
      if (at == n) return Interleavings::fail("retired and still linked");
  }

  // All is given back: nothing is left, neither ranges nor what has been one.
  void check_end() {
    Session last(*this, kSlots - 1, 99);
    for (size_t i = 0; i < count_; i++)
      if (held_[i].owner != kGone) last.release(&held_[i]);
    for (u32 slot = 0; slot < kSlots; slot++) Session(*this, slot, 99).forget_vacant();
    if (list_.head.next.load() != 0) Interleavings::fail("something is left in the list");
    for (auto &link : list_.head_tower.links)
      if (link.load() != 0) Interleavings::fail("something is left in the index");
  }

 private:
  static constexpr u32 kGone = ~0u;
  static bool conflict(const Held &a, const Held &b) {
    return a.owner != b.owner && (a.ask.mode == kRangeExclusive || b.ask.mode == kRangeExclusive) &&
           std::strcmp(a.ask.from, b.ask.to) < 0 && std::strcmp(b.ask.from, a.ask.to) < 0;
  }
  Held *add(const Held &h) {
    held_[count_] = h;
    queued_at_[count_] = ~u64{0};
    return &held_[count_++];
  }
  void queued(Held *h) {
    u64 &at = queued_at_[h - held_];
    if (at == ~u64{0}) at = clock_++;
  }
  void grant(Held *h) {
    h->granted = true;
    for (size_t i = 0; i < count_; i++)
      if (held_[i].owner != kGone && held_[i].granted && conflict(held_[i], *h))
        Interleavings::fail(std::string("both held: ") + held_[i].ask.from + ".." +
                            held_[i].ask.to + " and " + h->ask.from + ".." + h->ask.to);
  }
  // No request that was queued before this one was made waits still, unless for this one's owner.
  void check_order(Held *h, u64 begin) {
    if (queued_at_[h - held_] != ~u64{0}) return;   // it was queued itself
    for (size_t i = 0; i < count_; i++) {
      const Held &other = held_[i];
      if (other.owner == kGone || other.granted || !conflict(other, *h) || queued_at_[i] > begin)
        continue;
      bool waits_for_us = false;
      for (size_t j = 0; j < count_; j++)
        waits_for_us = waits_for_us || (held_[j].owner == h->owner && held_[j].granted &&
                                        conflict(held_[j], other));
      if (!waits_for_us)
        Interleavings::fail(std::string("passed: ") + other.ask.from + " by " + h->ask.from);
    }
  }
  void forget(Held *h) { h->owner = kGone; }

  std::unique_ptr<u8[]> cells_ = std::make_unique<u8[]>((kCells + 1) * kRangeCellBytes);
  Memory::Slot slots_[kSlots];
  Memory::Shared memory_;
  List::Shared list_;
  Held held_[32];
  u64 queued_at_[32];
  size_t count_ = 0;
  u64 clock_ = 1;
};

using Session = World::Session;
using Held = World::Held;

class RangeListModel : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "one real thread: nothing to see for the thread sanitizer";
#endif
  }

  // Threads with their sessions made beforehand; `prepare` may lock with the setup's session.
  struct Scene {
    World world;
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Held *> before;
  };
  using Thread = std::function<void(Session &, Scene &)>;

  Interleavings::Result explore(const std::function<void(Scene &)> &prepare,
                                const std::vector<Thread> &threads, u32 interruptions = 1) {
    if (const char *more = std::getenv("LS_INTERRUPTIONS"))
      interruptions = static_cast<u32>(std::atoi(more));
    std::unique_ptr<Scene> scene;
    Interleavings all(interruptions, std::getenv("LS_INTERRUPTIONS") ? ~u64{0} : 400'000);
    auto result = all.explore(
        [&] {
          scene = std::make_unique<Scene>();
          for (u32 t = 0; t < threads.size(); t++)
            scene->sessions.push_back(std::make_unique<Session>(scene->world, t, t));
          prepare(*scene);
          std::vector<Interleavings::Body> bodies;
          for (u32 t = 0; t < threads.size(); t++)
            bodies.push_back([&, t, s = scene.get()] { threads[t](*s->sessions[t], *s); });
          return bodies;
        },
        [&] { scene->world.check_end(); });
    std::printf("%llu interleavings, %llu steps, at most %u interruptions%s\n",
                (unsigned long long)result.runs, (unsigned long long)result.steps, interruptions,
                result.complete ? ": all" : "");
    return result;
  }

  static Thread take_and_give_back(Ask ask) {
    return [ask](Session &s, Scene &) {
      Held *h = s.lock(ask);
      if (h->granted || s.retry(h)) s.release(h);
    };
  }
  // Again and again, so that cells come back; every second time as an index node, of which only the
  // last is left in the list.
  static Thread come_and_go(Ask ask, u32 times) {
    return [ask, times](Session &s, Scene &) {
      for (u32 i = 0; i < times; i++) {
        Held *h = s.lock({ask.from, ask.to, ask.mode, i % 2});
        if (h->granted || s.retry(h)) s.release(h);
        if (i % 2 == 0) s.forget_vacant();
      }
    };
  }
  static void nothing(Scene &) {}
};

// LIST-2, LIST-4
TEST_F(RangeListModel, three_requests_for_one_key) {
  auto r = explore(nothing, {take_and_give_back({"b", "c", kRangeExclusive}),
                             take_and_give_back({"b", "c", kRangeExclusive}),
                             take_and_give_back({"b", "c", kRangeShared})});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, ranges_that_overlap_from_different_places) {
  auto r = explore(nothing, {take_and_give_back({"b", "e", kRangeExclusive}),
                             take_and_give_back({"d", "f", kRangeExclusive}),
                             take_and_give_back({"a", "h", kRangeShared})});
  EXPECT_EQ(r.failure, "");
}

// LIST-1
TEST_F(RangeListModel, a_index_node_comes_under_a_wide_range) {
  auto r = explore(nothing, {take_and_give_back({"a", "h", kRangeShared}),
                             take_and_give_back({"c", "d", kRangeShared, 1}),
                             take_and_give_back({"e", "f", kRangeExclusive})});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, two_index_nodes_at_once) {
  auto r = explore(nothing, {take_and_give_back({"a", "h", kRangeExclusive}),
                             take_and_give_back({"c", "f", kRangeShared, 2}),
                             take_and_give_back({"d", "e", kRangeExclusive, 1})});
  EXPECT_EQ(r.failure, "");
}

// A node that meets another at a link when it is inserted becomes an index node, by chance.
TEST_F(RangeListModel, index_nodes_where_two_write_to_one_link) {
  auto r =
      explore([](Scene &s) { s.before.push_back(s.sessions[2]->lock({"b", "e", kRangeShared})); },
              {take_and_give_back({"c", "d", kRangeShared, List::kByChance}),
               take_and_give_back({"d", "e", kRangeShared, List::kByChance}),
               take_and_give_back({"a", "d", kRangeExclusive, List::kByChance})});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, a_index_node_goes_while_others_begin_there) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"c", "d", kRangeShared, 2}));
        s.before.push_back(s.sessions[0]->lock({"a", "b", kRangeShared}));
      },
      {[](Session &s, Scene &scene) {
         s.release(scene.before[0]);
         s.forget_vacant();
       },
       take_and_give_back({"b", "h", kRangeExclusive}),
       take_and_give_back({"e", "f", kRangeShared, 1})});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, ranges_come_and_go_behind_a_vacant_index_node) {
  auto r = explore(
      [](Scene &s) { s.sessions[0]->release(s.sessions[0]->lock({"b", "c", kRangeShared, 1})); },
      {[](Session &s, Scene &) {
         Held *h = s.lock({"d", "e", kRangeExclusive});
         s.forget_vacant();
         if (h->granted) s.release(h);
       },
       take_and_give_back({"a", "h", kRangeExclusive}),
       take_and_give_back({"c", "e", kRangeShared})});
  EXPECT_EQ(r.failure, "");
}

// A request that no scan finds yet, for an index node does not know of it, is given no ticket: it
// would go before one that has looked already (LIST-3).
TEST_F(RangeListModel, a_ticket_comes_after_the_announce) {
  auto r = explore(
      [](Scene &s) {
        s.sessions[2]->release(s.sessions[2]->lock({"m", "n", kRangeShared, 1}));
        s.before.push_back(s.sessions[2]->lock({"p", "q", kRangeShared}));
      },
      {[](Session &s, Scene &) { s.lock({"e", "z", kRangeExclusive}); },
       [](Session &s, Scene &scene) {
         Session &third = *scene.sessions[2];
         third.release(third.lock({"a", "f", kRangeExclusive}));
         Held *h = s.lock({"p", "q", kRangeExclusive});
         third.release(scene.before[0]);
         if (!h->granted) s.retry(h);
       },
       [](Session &, Scene &) {}},
      2);
  EXPECT_EQ(r.failure, "");
}

// Each was linked after the one before: removed without a search where that is still so (LIST-5).
TEST_F(RangeListModel, neighbours_go_in_any_order) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "c", kRangeExclusive}));
        s.before.push_back(s.sessions[1]->lock({"d", "e", kRangeExclusive}));
        s.before.push_back(s.sessions[2]->lock({"f", "g", kRangeExclusive}));
      },
      {[](Session &s, Scene &scene) {
         s.release(scene.before[0]);
         Held *h = s.lock({"cc", "cd", kRangeExclusive});
         if (h->granted) s.release(h);
       },
       [](Session &s, Scene &scene) { s.release(scene.before[1]); },
       [](Session &s, Scene &scene) { s.release(scene.before[2]); }});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, others_come_and_go_between_a_look_and_the_link) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[1]->lock({"b", "c", kRangeExclusive}));
        s.before.push_back(s.sessions[2]->lock({"f", "g", kRangeExclusive}));
      },
      {take_and_give_back({"d", "e", kRangeExclusive, 0, true}),
       [](Session &s, Scene &scene) {
         s.release(scene.before[0]);
         take_and_give_back({"c", "dd", kRangeShared})(s, scene);
       },
       [](Session &s, Scene &scene) {
         s.release(scene.before[1]);
         take_and_give_back({"dd", "f", kRangeExclusive})(s, scene);
       }});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, an_upgrade_among_others) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "d", kRangeShared}));
        s.before.push_back(s.sessions[1]->lock({"c", "e", kRangeShared}));
      },
      {[](Session &s, Scene &scene) {
         Held *h = s.lock({"b", "d", kRangeExclusive});
         s.release(h);
         s.release(scene.before[0]);
       },
       [](Session &s, Scene &scene) { s.release(scene.before[1]); },
       take_and_give_back({"a", "d", kRangeExclusive})});
  EXPECT_EQ(r.failure, "");
}

// LIST-6, RANGE-3
TEST_F(RangeListModel, parts_become_one_and_stay_locked) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "d", kRangeExclusive}));
        s.before.push_back(s.sessions[0]->lock({"d", "f", kRangeExclusive}));
      },
      {[](Session &s, Scene &scene) {
         s.replace({"b", "f", kRangeExclusive}, {scene.before[0], scene.before[1]}, true);
       },
       take_and_give_back({"c", "e", kRangeExclusive}),
       take_and_give_back({"d", "e", kRangeShared, 1})});
  EXPECT_EQ(r.failure, "");
}

// ---- cells that are used again

// The node after which another was linked is gone, and its cell is a range elsewhere, or a tower,
// or comes and goes (LIST-7).
TEST_F(RangeListModel, what_was_before_it_becomes_something_else) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "c", kRangeExclusive}));
        s.before.push_back(s.sessions[1]->lock({"d", "e", kRangeExclusive}));
      },
      {[](Session &s, Scene &scene) {
         s.release(scene.before[0]);
         come_and_go({"f", "g", kRangeExclusive}, 5)(s, scene);
       },
       [](Session &s, Scene &scene) {
         s.release(scene.before[1]);
         come_and_go({"c", "d", kRangeExclusive}, 1)(s, scene);
       }},
      2);
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, all_come_and_go) {
  auto r = explore(nothing, {come_and_go({"b", "c", kRangeExclusive}, 3),
                             come_and_go({"a", "d", kRangeShared}, 2),
                             come_and_go({"c", "d", kRangeShared}, 2)});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, index_nodes_come_and_go_under_others) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "c", kRangeShared, 1}));
        s.before.push_back(s.sessions[1]->lock({"d", "e", kRangeShared}));
        s.before.push_back(s.sessions[2]->lock({"d", "f", kRangeShared}));
      },
      {[](Session &s, Scene &scene) {
         s.release(scene.before[0]);
         s.forget_vacant();
         come_and_go({"c", "d", kRangeExclusive}, 3)(s, scene);
       },
       [](Session &s, Scene &scene) {
         s.release(scene.before[1]);
         come_and_go({"b", "e", kRangeShared}, 1)(s, scene);
       },
       [](Session &s, Scene &scene) { s.release(scene.before[2]); }});
  EXPECT_EQ(r.failure, "");
}

TEST_F(RangeListModel, canary_a_node_goes_and_keeps_its_incarnation) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "c", kRangeExclusive}));
        s.before.push_back(s.sessions[1]->lock({"d", "e", kRangeExclusive}));
      },
      {[](Session &s, Scene &scene) {
         s.release_in_the_same_life(scene.before[0]);
         come_and_go({"f", "g", kRangeExclusive}, 5)(s, scene);
       },
       [](Session &s, Scene &scene) { s.release(scene.before[1]); }});
  EXPECT_NE(r.failure.find("still linked"), std::string::npos);
}

// ---- the latch of an owner's slot

struct ModelMutex {
  ModelAtomics::Atomic<u32> word{0};
  void lock() {
    for (u32 free = 0; !word.compare_exchange_strong(free, 1); free = 0) ModelAtomics::yield();
  }
  void unlock() { word.store(0); }
};

// The slot's worker and another (of others one comes at a time, by the mutex): never two at once.
// biased: as it is; or the worker does not look for others.
std::string explore_latch(bool biased) {
  struct State {
    std::unique_ptr<World> world = std::make_unique<World>();
    BiasedLatch<Supplier, ModelMutex> latch;
    ModelAtomics::Atomic<u32> inside{0};
    u32 turns = 0;
    void turn() {
      if (inside.fetch_add(1) != 0) Interleavings::fail("two at once");
      turns++;
      inside.fetch_sub(1);
    }
  };
  std::unique_ptr<State> state;
  auto other = [&] {
    Memory memory(state->world->memory(), 1);
    for (u32 i = 0; i < 2; i++) {
      state->latch.lock(memory, 0);
      state->turn();
      state->latch.unlock();
    }
  };
  auto worker = [&] {
    Memory memory(state->world->memory(), 0);
    for (u32 i = 0; i < 2; i++) {
      bool own = true;
      if (biased)
        own = state->latch.try_enter(memory);
      else
        memory.enter(true);
      if (!own) state->latch.lock(memory, 0);
      state->turn();
      own ? memory.leave() : state->latch.unlock();
    }
  };
  Interleavings all(2, 400'000);
  auto r = all.explore(
      [&] {
        state = std::make_unique<State>();
        return std::vector<Interleavings::Body>{worker, other};
      },
      [&] {
        if (state->turns != 4) Interleavings::fail("a turn is missing");
      });
  std::printf("%llu interleavings\n", (unsigned long long)r.runs);
  return r.failure;
}

// RANGE-1
TEST_F(RangeListModel, one_at_a_time_holds_the_latch_of_a_slot) {
  EXPECT_EQ(explore_latch(true), "");
}
TEST_F(RangeListModel, canary_the_worker_does_not_look_for_others) {
  EXPECT_NE(explore_latch(false).find("two at once"), std::string::npos);
}

// The checker finds what is wrong.
TEST_F(RangeListModel, canary_parts_become_one_unannounced) {
  auto r = explore(
      [](Scene &s) {
        s.before.push_back(s.sessions[0]->lock({"b", "d", kRangeExclusive}));
        s.before.push_back(s.sessions[0]->lock({"d", "f", kRangeExclusive}));
      },
      {[](Session &s, Scene &scene) {
         s.replace({"b", "f", kRangeExclusive}, {scene.before[0], scene.before[1]}, false);
       },
       take_and_give_back({"d", "e", kRangeShared})},
      2);
  EXPECT_NE(r.failure.find("both held"), std::string::npos);
}

TEST_F(RangeListModel, canary_looking_only_before_the_insertion) {
  auto look_then_insert = [](Ask ask) {
    return [ask](Session &s, Scene &) { s.lock_without_looking_again(ask); };
  };
  auto r = explore(nothing,
                   {look_then_insert({"b", "e", kRangeExclusive}),
                    look_then_insert({"d", "f", kRangeExclusive})},
                   2);
  EXPECT_NE(r.failure.find("both held"), std::string::npos);
}

}  // namespace
}  // namespace ls::test
