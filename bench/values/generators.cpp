// generators.cpp - traces made by chance.
//
// Keys, sizes and contents come from three streams of random numbers: another share of duplicates
// changes neither the keys nor the sizes.
#include "generators.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/random.hpp"

namespace ls::values {
namespace {

constexpr u64 kMicrosecondsEach = 20;
constexpr double kYcsbSkew = 0.99;
// YCSB B has one update in twenty operations where A and F have ten.
constexpr u32 kYcsbBShorter = 10;
// The hot set of "drifting": its share of the keys, its share of the writes.
constexpr double kHotKeys = 0.1, kHotWrites = 0.9;
// As many common contents as keys divided by this.
constexpr u32 kKeysPerContent = 20;

u64 mix(u64 x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// Ranks with zipfian frequencies, by the rejection-free approximation of Gray et al. (SIGMOD 1994)
// that YCSB uses, too; for skews below 1.
class Zipf {
 public:
  Zipf(u32 n, double skew) : n_(n), skew_(skew) {
    for (u32 i = 1; i <= n; i++)
      zeta_ += std::pow(i, -skew);
    const double two = 1 + std::pow(2, -skew);
    eta_ = (1 - std::pow(2.0 / n, 1 - skew)) / (1 - two / zeta_);
  }
  u32 next(u64 *state) const {
    const double u = next_share(state), uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, skew_)) return 1;
    const double rank = n_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - skew_));
    return std::min(n_ - 1, static_cast<u32>(rank));
  }

 private:
  u32 n_;
  double skew_, zeta_ = 0, eta_;
};

class Maker {
 public:
  Maker(const Recipe &recipe, Trace *trace)
      : recipe_(recipe),
        trace_(trace),
        keys_(stream(recipe.seed, 1)),
        sizes_(stream(recipe.seed, 2)),
        contents_(stream(recipe.seed, 3)) {
    trace->writes.reserve(recipe.writes);
  }

  u64 *random() { return &keys_; }
  bool full() const { return trace_->writes.size() >= recipe_.writes; }
  void skip_time(u64 writes) { time_ += writes * kMicrosecondsEach; }

  void put(u32 key) { put(key, draw_size()); }
  void put(u32 key, u32 size) {
    trace_->keys = std::max(trace_->keys, key + 1);
    trace_->writes.push_back({tick(), draw_content(size), key, size, Operation::kPut});
  }
  void remove(u32 key) { trace_->writes.push_back({tick(), {}, key, 0, Operation::kDelete}); }

  u32 draw_size() {
    const u32 span = recipe_.size_max - recipe_.size_min + 1;
    return recipe_.size_min + static_cast<u32>(next_below(&sizes_, span));
  }

  // All keys once, in random order; returns which key has which rank, again in random order.
  std::vector<u32> fill() {
    std::vector<u32> order(recipe_.keys);
    std::iota(order.begin(), order.end(), 0);
    shuffle(&order);
    for (u32 i = 0; i < recipe_.keys && !full(); i++)
      put(i);
    return order;
  }

 private:
  u64 tick() { return time_ += kMicrosecondsEach; }
  Hash draw_content(u32 size) {
    const bool common = next_share(&contents_) < recipe_.duplicates;
    const u64 which = next_below(&contents_, std::max(1u, recipe_.keys / kKeysPerContent));
    const u64 content = common ? which : (u64{1} << 40) + trace_->writes.size();
    return {mix(content + 1), mix(content * 31 + size)};
  }
  void shuffle(std::vector<u32> *order) {
    for (size_t i = order->size(); i > 1; i--)
      std::swap((*order)[i - 1], (*order)[next_below(&keys_, i)]);
  }

  const Recipe &recipe_;
  Trace *trace_;
  u64 keys_, sizes_, contents_, time_ = 0;
};

void zipf(const Recipe &recipe, double skew, Maker *maker) {
  const std::vector<u32> order = maker->fill();
  const Zipf ranks(recipe.keys, skew);
  while (!maker->full())
    maker->put(order[ranks.next(maker->random())]);
}

// As many operations as the other two, so a tenth of their updates.
void ycsb_b(const Recipe &recipe, Maker *maker) {
  const std::vector<u32> order = maker->fill();
  const Zipf ranks(recipe.keys, kYcsbSkew);
  const u32 updates = (recipe.writes - std::min(recipe.writes, recipe.keys)) / kYcsbBShorter;
  for (u32 i = 0; i < updates; i++) {
    maker->skip_time(kYcsbBShorter - 1);
    maker->put(order[ranks.next(maker->random())]);
  }
}

// Each update reads the value first and makes it a little shorter or longer.
void ycsb_f(const Recipe &recipe, Maker *maker) {
  const std::vector<u32> order = maker->fill();
  std::vector<u32> sizes(recipe.keys, (recipe.size_min + recipe.size_max) / 2);
  const Zipf ranks(recipe.keys, kYcsbSkew);
  while (!maker->full()) {
    const u32 key = order[ranks.next(maker->random())];
    const u32 step = static_cast<u32>(next_below(maker->random(), sizes[key] / 4 + 2));
    sizes[key] = std::clamp(sizes[key] + step - sizes[key] / 8, recipe.size_min / 2 + 1,
                            recipe.size_max * 2);
    maker->put(key, sizes[key]);
  }
}

// The hot set wanders once through all the keys.
void drifting(const Recipe &recipe, Maker *maker) {
  const std::vector<u32> order = maker->fill();
  const u64 hot = std::max<u64>(1, static_cast<u64>(recipe.keys * kHotKeys));
  const u64 updates = std::max<u64>(1, recipe.writes - std::min(recipe.writes, recipe.keys));
  for (u64 i = 0; !maker->full(); i++) {
    const u64 begin = i * recipe.keys / updates;
    const bool is_hot = next_share(maker->random()) < kHotWrites;
    const u64 place = is_hot ? begin + next_below(maker->random(), hot)
                             : next_below(maker->random(), recipe.keys);
    maker->put(order[place % recipe.keys]);
  }
}

// New keys all the time.  Four of five live for about a tenth of the keys' number of writes, the
// fifth for about as long as a log of all the keys takes to be written; then they are deleted.
void deletes(const Recipe &recipe, Maker *maker) {
  std::vector<std::pair<u64, u32>> ends;  // a heap: the time of a key's end
  const auto later = [](const auto &a, const auto &b) { return a.first > b.first; };
  for (u32 key = 0; !maker->full(); key++) {
    while (!ends.empty() && ends.front().first <= key && !maker->full()) {
      maker->remove(ends.front().second);
      std::pop_heap(ends.begin(), ends.end(), later);
      ends.pop_back();
    }
    if (maker->full()) return;
    const u64 mean = key % 5 != 0 ? recipe.keys / 10 : recipe.keys;
    maker->put(key);
    ends.emplace_back(key + mean / 2 + next_below(maker->random(), mean + 1), key);
    std::push_heap(ends.begin(), ends.end(), later);
  }
}

}  // namespace

u64 stream(u64 seed, u64 number) {
  const u64 state = mix(seed * 0x9e3779b97f4a7c15ULL + number);
  return state != 0 ? state : 1;
}

double next_share(u64 *state) {
  const u64 high = next_random(*state), low = next_random(*state);
  return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1p-53;
}

u64 next_below(u64 *state, u64 limit) {
  return std::min(limit - 1, static_cast<u64>(next_share(state) * static_cast<double>(limit)));
}

bool generate(const Recipe &recipe, Trace *trace, std::string *why) {
  if (recipe.keys < 100 || recipe.size_min == 0 || recipe.size_max < recipe.size_min ||
      recipe.size_max > kMaxValueBytes / 2) {
    *why = "at least 100 keys, and sizes from 1 upwards";
    return false;
  }
  *trace = {};
  Maker maker(recipe, trace);
  const std::string &name = recipe.name;
  const double skew = name.starts_with("zipf:") ? atof(name.c_str() + 5) : 0;
  if (skew > 0 && skew < 1)
    zipf(recipe, skew, &maker);
  else if (name == "ycsb-a")
    zipf(recipe, kYcsbSkew, &maker);
  else if (name == "ycsb-b")
    ycsb_b(recipe, &maker);
  else if (name == "ycsb-f")
    ycsb_f(recipe, &maker);
  else if (name == "drifting")
    drifting(recipe, &maker);
  else if (name == "insert-only")
    for (u32 key = 0; !maker.full(); key++)
      maker.put(key);
  else if (name == "deletes")
    deletes(recipe, &maker);
  else
    *why = "no generator " + name;
  return why->empty();
}

}  // namespace ls::values
