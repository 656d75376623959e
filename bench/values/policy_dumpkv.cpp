// policy_dumpkv.cpp - DumpKV (Zhuang, Zeng, Chen): a segment is collected when its time to live is
// over; values that still live are taken for short-lived or long-lived ones by boosted trees.
//
// Paper and published code (BilyZ98/DumpKV, 01ab932) differ; both readings are here:
//
//                          paper                            code
//   a sample is taken      EDWC_short / EDWC_long           1 - that; half of them below 0.01
//   with probability
//   label in a collection  1 if EDWC_short > 1 (printed),   only keys never written again: 1
//                          or 0 then (its text)
//   thresholds             anew after each collection       never: both refreshes return at once
//   their start            a fifth of all writes            2, 2 and 10 of 50 million writes
//   label of a lifetime    1 if it is above l_d + l_s       1 if it is above 2 l_d
//   counts decay           continuously                     by whole windows
//
// The paper tells the start of l_d alone; l_s and l_l begin with the same here.  Before the first
// training all that is moved goes to the short class, as in the code.  In the code the counts of a
// key's first rewrite are decayed by the lifetime that is to be learnt; that leak is kept.
//
// "apart" is no reading but what SepBIT teaches: the text's reading, with new values apart by their
// key's last interval.
//
// Without a budget of space a segment is collected when its end has come, as in the paper.  With
// one the victim is chosen by cost and benefit.  The earliest end is no choice then: it takes
// short-lived segments again and again, though they are full of live values, while the garbage lies
// in the long-lived ones, which end later.
#include <algorithm>
#include <cmath>

#include "generators.hpp"
#include "key_history.hpp"
#include "policy.hpp"
#include "xgboost.hpp"

namespace ls::values {
namespace {

constexpr u32 kDefault = 0, kShort = 1, kLong = 2, kNewShort = 3, kClasses = 4;
constexpr u64 kLifetimesForThresholds = 1000;

struct Reading {
  enum class Label { kPrinted, kText, kNeverRewritten };
  bool share_is_probability;
  Label label;
  bool refresh;
  bool as_code;                                   // the last two lines of the table, and the leak
  double start_short, start_default, start_long;  // shares of all writes
  bool model = true;                              // false: all that is moved is long-lived
  bool apart = false;  // new values of keys that were rewritten within l_s have their own class
};

constexpr Reading kPaper = {true, Reading::Label::kPrinted, true, false, 0.2, 0.2, 0.2};
constexpr Reading kText = {true, Reading::Label::kText, true, false, 0.2, 0.2, 0.2};
constexpr Reading kCode = {false, Reading::Label::kNeverRewritten, false, true, 0.04, 0.04, 0.2};
constexpr Reading kApart = {true, Reading::Label::kText, true, false, 0.2, 0.2, 0.2, true, true};
constexpr Reading kAllLong = {
    .refresh = true, .start_short = 0.2, .start_default = 0.2, .start_long = 0.2, .model = false};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Equations 3 and 4: the percentile for a share of garbage.
double percent(double base, double extra, double garbage) {
  return base * sigmoid(10 * (1 - garbage - 0.25)) + extra * sigmoid(10 * (1 - garbage - 0.75));
}

// The samples of the next training, as many of each label, at most half of them of collections.
class SampleSet {
 public:
  explicit SampleSet(u32 wanted) : wanted_(wanted) { samples_.columns = kFeatures; }

  void add(const Features &features, bool is_long, bool of_collection) {
    u32 &count = counts_[is_long], &collected = collected_[is_long];
    if (count > wanted_ / 2 || (of_collection && collected > wanted_ / 4)) return;
    count++;
    collected += of_collection;
    samples_.features.insert(samples_.features.end(), features.begin(), features.end());
    samples_.labels.push_back(is_long ? 1 : 0);
  }
  bool full() const { return samples_.rows() >= wanted_; }
  const Samples &samples() const { return samples_; }
  void clear() {
    samples_.clear();
    counts_ = collected_ = {};
  }

 private:
  u32 wanted_;
  std::array<u32, 2> counts_{}, collected_{};
  Samples samples_;
};

class DumpKv : public Policy {
 public:
  DumpKv(const Reading &reading, const PolicyOptions &options, std::unique_ptr<XgBoost> xgboost)
      : reading_(reading),
        options_(options),
        xgboost_(std::move(xgboost)),
        windows_(options.writes, reading.as_code),
        random_(stream(options.seed, 11)),
        samples_(options.samples) {
    const double writes = static_cast<double>(options.writes);
    short_ = static_cast<u64>(reading.start_short * writes);
    default_ = static_cast<u64>(reading.start_default * writes);
    long_ = static_cast<u64>(reading.start_long * writes);
  }

  u32 classes() const override { return kClasses; }
  u32 place_new(const ValueLog &log, u32 value) override {
    const KeyHistory &history = histories_[log.value(value).key];
    const bool is_short = reading_.apart && history.count > 0 && history.deltas[0] < short_;
    return is_short ? kNewShort : kDefault;
  }

  u32 place_moved(const ValueLog &log, u32 value, const Segment &) override {
    const Value &v = log.value(value);
    const KeyHistory &history = histories_[v.key];
    const u64 age = log.now() - history.written;
    const Features features = history.features(age, v.size, windows_);
    ages_.add(age);
    if (next_share(&random_) < 1 - garbage_share()) learn_age(history, age, features);
    if (!reading_.model) return kLong;
    return !trees_.empty() && trees_.margin(features) > 0 ? kLong : kShort;
  }

  double score(const ValueLog &log, const Segment &segment) const override {
    return cost_benefit_score(log, segment);
  }

  void before_put(const ValueLog &log, u32 key) override {
    if (key >= histories_.size()) histories_.resize(key + 1);
    KeyHistory &history = histories_[key];
    if (log.key(key).value == kNone) {
      history.begin(log.now());
      return;
    }
    learn_lifetime(log, key);
    history.add(log.now(), windows_);
  }
  void before_delete(const ValueLog &log, u32 key) override { learn_lifetime(log, key); }

  // What lies in a segment of shared values is expected to live long.
  u64 end_of(const ValueLog &log, const Segment &segment) override {
    const u32 c = segment.place_class;
    const u64 lifetime = c == kDefault ? default_ : c == kShort || c == kNewShort ? short_ : long_;
    const double factored = options_.lifetime_factor * static_cast<double>(lifetime);
    return log.now() + std::max<u64>(1, static_cast<u64>(factored));
  }

  void before_collection(const ValueLog &, const Segment &segment) override {
    looked_at_ += segment.values.size();
    dropped_ += segment.values.size() - segment.live_values;
  }

  void after_collection(const ValueLog &) override {
    if (reading_.refresh) refresh_thresholds();
  }

  u32 trainings() const override { return trainings_; }

 private:
  double garbage_share() const {
    return looked_at_ == 0 ? 0 : static_cast<double>(dropped_) / static_cast<double>(looked_at_);
  }
  double count_in(const KeyHistory &history, u64 threshold, u64 age) const {
    const u32 i = windows_.counter_of(threshold);
    return history.counters[i] * windows_.decay(i, age);
  }

  // The value that the key has now has lived until now: equation 7.
  void learn_lifetime(const ValueLog &log, u32 key) {
    KeyHistory history = histories_[key];
    const u64 lifetime = log.now() - history.written;
    lifetimes_.add(lifetime);
    if (!reading_.model || lifetime < default_) return;
    if (reading_.as_code && lifetime <= short_) return;
    if (reading_.as_code && history.count == 0)
      for (u32 i = 0; i < kCounters; i++)
        history.counters[i] *= windows_.decay(i, lifetime);
    const double share = count_in(history, short_, 0) / count_in(history, long_, 0);
    const double probability = reading_.share_is_probability ? share
                               : share > 0.99                ? 0.5
                                                             : 1 - share;
    if (next_share(&random_) >= probability) return;
    const u32 size = log.value(log.key(key).value).size;
    const bool is_long = lifetime - default_ > (reading_.as_code ? default_ : short_);
    samples_.add(history.features(default_, size, windows_), is_long, false);
    train_if_full();
  }

  // A value that lives when its segment is collected: equation 8 guesses.
  void learn_age(const KeyHistory &history, u64 age, const Features &features) {
    if (!reading_.model) return;
    if (history.count > 0 && reading_.label == Reading::Label::kNeverRewritten) return;
    const bool written_lately = count_in(history, short_, age) > 1;
    const bool is_long =
        history.count == 0 || written_lately == (reading_.label == Reading::Label::kPrinted);
    samples_.add(features, is_long, true);
    train_if_full();
  }

  void train_if_full() {
    if (!samples_.full()) return;
    std::string why;
    if (xgboost_->train(samples_.samples(), options_.seed + trainings_, &trees_, nullptr, &why))
      trainings_++;
    samples_.clear();
  }

  // Equations 3, 4 and 6.
  void refresh_thresholds() {
    const double garbage = garbage_share();
    if (lifetimes_.count() >= kLifetimesForThresholds)
      short_ = lifetimes_.percentile(percent(60, 40, garbage));
    if (ages_.count() >= kLifetimesForThresholds)
      long_ = ages_.percentile(percent(80, 20, garbage));
    short_ = std::max<u64>(1, short_);
    long_ = std::max(long_, short_);
    const double span = static_cast<double>(long_ - short_);
    default_ = short_ + static_cast<u64>(span * sigmoid(1 - garbage - 0.75));
  }

  Reading reading_;
  PolicyOptions options_;
  std::unique_ptr<XgBoost> xgboost_;
  Windows windows_;
  u64 random_;
  std::vector<KeyHistory> histories_;  // by key
  SampleSet samples_;
  FlatTrees trees_;
  u32 trainings_ = 0;
  u64 short_, default_, long_;       // l_s, l_d, l_l
  Lifetimes lifetimes_, ages_;       // H_s, H_l
  u64 looked_at_ = 0, dropped_ = 0;  // values in collections
};

}  // namespace

std::unique_ptr<Policy> make_dumpkv(const std::string &name, const PolicyOptions &options,
                                    std::string *why) {
  const Reading *reading = name == "paper"   ? &kPaper
                           : name == "text"  ? &kText
                           : name == "code"  ? &kCode
                           : name == "apart" ? &kApart
                           : name == "long"  ? &kAllLong
                                             : nullptr;
  if (!reading) {
    *why = "no reading of DumpKV: " + name;
    return nullptr;
  }
  auto xgboost = reading->model ? load_xgboost(why) : nullptr;
  if (reading->model && !xgboost) return nullptr;
  return std::make_unique<DumpKv>(*reading, options, std::move(xgboost));
}

}  // namespace ls::values
