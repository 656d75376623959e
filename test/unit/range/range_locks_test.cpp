// One thread, several workers: what is granted, which worker waits for which, what is released.
#include "unit/range/range_fixture.hpp"

#include <random>

namespace ls::test {
namespace {

class RangeLocksTest : public ::testing::Test {
 protected:
  RangeArena arena_;
  RangeWorker a_{arena_, 0}, b_{arena_, 1}, c_{arena_, 2};
};

TEST_F(RangeLocksTest, exclusive_ranges_of_two_owners_do_not_overlap) {
  EXPECT_EQ(a_.exclusive("d", "h"), LS_OK);
  EXPECT_EQ(b_.exclusive("a", "d"), LS_OK) << "ends where the other begins";
  EXPECT_EQ(b_.exclusive("h", "k"), LS_OK);
  for (auto [from, to] : {std::pair{"c", "e"},
                          {"e", "f"},
                          {"g", "z"},
                          {"a", "$"},
                          {"d", "h"},
                          {"", "$"},
                          {"gzzz", "h"}}) {
    EXPECT_EQ(c_.exclusive(from, to), LS_LOCKED) << from << ".." << to;
    EXPECT_EQ(c_.shared(from, to), LS_LOCKED) << from << ".." << to;
  }
  EXPECT_EQ(c_.exclusive("", "a"), LS_OK);
  c_.end();
  b_.end();
  EXPECT_EQ(c_.exclusive("e", "f"), LS_LOCKED);
  EXPECT_EQ(c_.holder, a_.owner());
  a_.end();
  EXPECT_EQ(c_.exclusive("e", "f"), LS_OK);
}

TEST_F(RangeLocksTest, shared_ranges_overlap) {
  EXPECT_EQ(a_.shared("a", "m"), LS_OK);
  EXPECT_EQ(b_.shared("c", "$"), LS_OK);
  EXPECT_EQ(c_.shared("", "d"), LS_OK);
  EXPECT_EQ(c_.exclusive("e", "f"), LS_LOCKED);
  a_.end();
  EXPECT_EQ(c_.exclusive("e", "f"), LS_LOCKED)
      << "the other's range reaches far beyond what lies between";
  EXPECT_EQ(c_.holder, b_.owner());
  b_.end();
  EXPECT_EQ(c_.exclusive("e", "f"), LS_OK);
}

TEST_F(RangeLocksTest, trees_are_apart) {
  EXPECT_EQ(a_.lock("", "$", kRangeExclusive, 2), LS_OK);
  EXPECT_EQ(b_.lock("", "$", kRangeExclusive, 1), LS_OK);
  EXPECT_EQ(b_.lock("", "$", kRangeExclusive, 3), LS_OK);
  EXPECT_EQ(b_.lock("x", "y", kRangeShared, 2), LS_LOCKED);
}

TEST_F(RangeLocksTest, an_empty_range_locks_nothing) {
  EXPECT_EQ(a_.exclusive("m", "m"), LS_OK);
  EXPECT_EQ(a_.exclusive("m", "a"), LS_OK);
  EXPECT_EQ(arena_.list().size(), 0u);
}

TEST_F(RangeLocksTest, locking_again_is_free) {
  EXPECT_EQ(a_.exclusive("d", "h"), LS_OK);
  EXPECT_EQ(a_.exclusive("d", "h"), LS_OK);
  EXPECT_EQ(a_.shared("e", "f"), LS_OK);
  EXPECT_EQ(arena_.list().size(), 1u);
  EXPECT_EQ(b_.exclusive("e", "f"), LS_LOCKED);
  EXPECT_EQ(a_.exclusive("e", "g"), LS_OK) << "although somebody waits";
}

TEST_F(RangeLocksTest, ranges_of_one_owner_that_touch_become_one) {
  EXPECT_EQ(a_.shared("a", "c"), LS_OK);
  EXPECT_EQ(a_.shared("e", "g"), LS_OK);
  EXPECT_EQ(a_.shared("c", "e"), LS_OK);
  ASSERT_EQ(arena_.list().size(), 1u);
  ls_range_info info = arena_.list()[0];
  EXPECT_EQ(std::string(info.from, info.from + info.from_len) +
                std::string(info.to, info.to + info.to_len),
            "ag");
  EXPECT_EQ(a_.exclusive("b", "d"), LS_OK) << "another mode stays apart";
  EXPECT_EQ(arena_.list().size(), 2u);
  EXPECT_EQ(b_.shared("f", "g"), LS_OK);
  EXPECT_EQ(b_.shared("c", "d"), LS_LOCKED);
}

TEST_F(RangeLocksTest, an_upgrade_waits_for_the_others_and_passes_those_who_wait_for_it) {
  EXPECT_EQ(a_.shared("a", "m"), LS_OK);
  EXPECT_EQ(b_.shared("a", "m"), LS_OK);
  EXPECT_EQ(c_.exclusive("b", "c"), LS_LOCKED);
  EXPECT_EQ(a_.exclusive("a", "m"), LS_LOCKED);
  EXPECT_EQ(a_.holder, b_.owner()) << "not c, which waits for a";
  b_.end();
  EXPECT_EQ(a_.exclusive("a", "m"), LS_OK);
  EXPECT_EQ(arena_.held(), 1u) << "what was shared has gone into it";
  EXPECT_EQ(c_.exclusive("b", "c"), LS_LOCKED);
  a_.end();
  EXPECT_EQ(c_.exclusive("b", "c"), LS_OK);
}

// LIST-4
TEST_F(RangeLocksTest, conflicting_requests_are_served_in_order) {
  EXPECT_EQ(a_.shared("a", "m"), LS_OK);
  EXPECT_EQ(b_.exclusive("c", "e"), LS_LOCKED);
  EXPECT_EQ(c_.shared("d", "f"), LS_LOCKED) << "compatible with what is held, but b was first";
  EXPECT_EQ(c_.holder, b_.owner());
  EXPECT_EQ(c_.shared("e", "f"), LS_OK) << "not in b's way";
  EXPECT_EQ(c_.shared("d", "f"), LS_LOCKED);
  a_.end();
  EXPECT_EQ(c_.shared("d", "f"), LS_LOCKED);
  EXPECT_EQ(b_.exclusive("c", "e"), LS_OK);
  b_.end();
  EXPECT_EQ(c_.shared("d", "f"), LS_OK);
}

// RANGE-2
TEST_F(RangeLocksTest, a_request_that_is_withdrawn_stops_nobody) {
  EXPECT_EQ(a_.shared("a", "m"), LS_OK);
  EXPECT_EQ(b_.exclusive("c", "e"), LS_LOCKED);
  EXPECT_EQ(c_.shared("d", "f"), LS_LOCKED);
  b_.withdraw();
  b_.withdraw();
  EXPECT_EQ(c_.shared("d", "f"), LS_OK);
  EXPECT_EQ(b_.exclusive("c", "e"), LS_LOCKED);
  EXPECT_EQ(b_.shared("x", "y"), LS_OK) << "another request takes its place";
  EXPECT_EQ(arena_.list().size(), 3u);
}

// RANGE-1
TEST_F(RangeLocksTest, several_workers_lock_for_one_owner) {
  EXPECT_EQ(b_.lock_for(a_.owner(), "a", "c", kRangeShared), LS_OK);
  EXPECT_EQ(c_.lock_for(a_.owner(), "k", "m", kRangeExclusive), LS_OK);
  RangeWorker d(arena_, 3);
  EXPECT_EQ(d.exclusive("x", "z"), LS_OK);
  EXPECT_EQ(b_.lock_for(a_.owner(), "y", "z", kRangeShared), LS_LOCKED);
  EXPECT_EQ(c_.lock_for(a_.owner(), "x", "y", kRangeShared), LS_LOCKED);
  EXPECT_EQ(a_.exclusive("a", "c"), LS_OK);
  a_.end();
  EXPECT_EQ(arena_.list().size(), 1u);
  b_.withdraw();
  EXPECT_EQ(c_.shared("a", "m"), LS_OK);
}

TEST_F(RangeLocksTest, owners_of_one_slot_are_apart) {
  RangeOwner prepared{0, 77};
  EXPECT_EQ(b_.lock_for(prepared, "a", "c", kRangeExclusive), LS_OK);
  EXPECT_EQ(a_.exclusive("b", "d"), LS_LOCKED);
  EXPECT_EQ(a_.holder, prepared);
  a_.end();
  EXPECT_EQ(arena_.held(), 1u);
  b_.locks().unlock_all(prepared);
  EXPECT_EQ(arena_.list().size(), 0u);
}

TEST_F(RangeLocksTest, long_keys_are_exact_and_longer_ones_are_rounded_away) {
  const std::string x(980, 'x'), p = x + "p", q = x + "q", r = x + "r";
  EXPECT_EQ(a_.exclusive(p, q), LS_OK);
  EXPECT_EQ(b_.exclusive(q, r), LS_OK);
  EXPECT_EQ(c_.exclusive(q + "1", r), LS_LOCKED);
  EXPECT_EQ(c_.holder, b_.owner());
  EXPECT_EQ(c_.exclusive(x, p), LS_OK);
  EXPECT_EQ(c_.exclusive(x, p + '\0'), LS_LOCKED);
  EXPECT_EQ(c_.holder, a_.owner());
  const std::string very_long(5000, '\xff');
  EXPECT_EQ(c_.exclusive(very_long, very_long + '\xff'), LS_OK);
  EXPECT_EQ(b_.exclusive(very_long + "z", "$"), LS_LOCKED) << "rounded up to the end";
  EXPECT_EQ(b_.exclusive("yyy", "z"), LS_OK);
}

TEST_F(RangeLocksTest, the_list_tells_what_there_is) {
  EXPECT_EQ(a_.shared("abc", "$"), LS_OK);
  EXPECT_EQ(b_.exclusive("b", std::string(100, 'c')), LS_LOCKED);
  std::vector<ls_range_info> list = arena_.list();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].granted && list[0].to_end && list[0].mode == LS_RANGE_SHARED &&
              list[0].from_len == 3);
  EXPECT_FALSE(list[1].granted);
  EXPECT_EQ(list[1].mode, LS_RANGE_EXCLUSIVE);
  EXPECT_EQ(list[1].owner.slot, 1u);
  EXPECT_EQ(std::string(list[1].to, list[1].to + list[1].to_len), std::string(32, 'c'));
}

// The plainest model there is: a list of what is held and asked for, in the order of the queue.
struct PlainList {
  struct Held {
    u32 worker;
    std::string from, to;
    RangeMode mode;
    bool granted;
  };
  std::vector<Held> all;

  static bool conflict(const Held &x, const Held &y) {
    return x.worker != y.worker && (x.mode == kRangeExclusive || y.mode == kRangeExclusive) &&
           x.from < y.to && y.from < x.to;
  }
  void end(u32 worker) {
    std::erase_if(all, [&](const Held &h) { return h.worker == worker; });
  }
  void withdraw(u32 worker) {
    std::erase_if(all, [&](const Held &h) { return h.worker == worker && !h.granted; });
  }
  Held *waiting(u32 worker) {
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const Held &h) { return h.worker == worker && !h.granted; });
    return found == all.end() ? nullptr : &*found;
  }
  // Whether the request is granted.
  bool ask(const Held &request) {
    // The same again, also when it is so by chance, keeps its place.
    Held *before = waiting(request.worker);
    if (before && (request.from != before->from || request.to != before->to ||
                   request.mode != before->mode)) {
      withdraw(request.worker);
      before = nullptr;
    }
    if (!before) all.push_back(request);
    Held &own = before ? *before : all.back();
    own.granted = std::none_of(all.begin(), all.end(),
                               [&](const Held &other) { return in_the_way(other, own); });
    return own.granted;
  }

 private:
  // A holder is; so is one that came before, but for one that waits for this worker itself.
  bool in_the_way(const Held &other, const Held &own) const {
    if (!conflict(other, own)) return false;
    if (other.granted) return true;
    const bool waits_for_own = std::any_of(all.begin(), all.end(), [&](const Held &h) {
      return h.worker == own.worker && h.granted && conflict(h, other);
    });
    return &other < &own && !waits_for_own;
  }
};

PlainList::Held random_request(std::mt19937 &random, u32 worker) {
  auto key = [&] {
    return std::string(1 + random() % 2, static_cast<char>('a' + random() % 26)) +
           std::string(random() % 40, 'm');
  };
  PlainList::Held ask{worker, key(), key(), random() % 3 ? kRangeShared : kRangeExclusive, false};
  if (random() % 3 == 0) ask.to = ask.from + '\0';
  if (ask.from >= ask.to) std::swap(ask.from, ask.to);
  if (ask.from == ask.to) ask.to += "x";
  return ask;
}

TEST(RangeModel, grants_what_a_plain_list_would_grant) {
  const u32 seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  constexpr u32 kWorkers = 6;
  RangeArena arena(kWorkers);
  std::vector<std::unique_ptr<RangeWorker>> workers;
  for (u32 i = 0; i < kWorkers; i++) workers.push_back(std::make_unique<RangeWorker>(arena, i));
  PlainList model;
  u32 granted = 0, waited = 0;
  for (u32 step = 0; step < 60'000; step++) {
    const u32 w = random() % kWorkers;
    if (random() % 12 == 0) {
      workers[w]->end();
      model.end(w);
      ASSERT_EQ(arena.list().size() == 0, model.all.empty());
      continue;
    }
    if (random() % 20 == 0) {
      workers[w]->withdraw();
      model.withdraw(w);
      continue;
    }
    PlainList::Held ask = random_request(random, w);
    if (const PlainList::Held *waiting = model.waiting(w); waiting && random() % 2) ask = *waiting;
    const bool free = model.ask(ask);
    ls_status status = workers[w]->lock(ask.from, ask.to, ask.mode);
    ASSERT_EQ(status, free ? LS_OK : LS_LOCKED) << "step " << step << " worker " << w << " ["
                                                << ask.from << ", " << ask.to << ") " << ask.mode;
    (free ? granted : waited)++;
  }
  EXPECT_GT(granted, 1000u);
  EXPECT_GT(waited, 1000u);
  for (auto &worker : workers) worker->end();
  EXPECT_EQ(arena.list().size(), 0u);
}

}  // namespace
}  // namespace ls::test
