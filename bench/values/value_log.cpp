// value_log.cpp - the model of a value log.
#include "value_log.hpp"

#include <algorithm>

#include "policy.hpp"

namespace ls::values {
namespace {

// Ends of segments are looked at once in so many writes.
constexpr u64 kDueEvery = 64;

std::string differs(const char *what, u64 told, u64 counted) {
  return std::string(what) + ": " + std::to_string(told) + ", counted " + std::to_string(counted);
}

}  // namespace

ValueLog::ValueLog(const Options &options, u32 keys, Policy *policy)
    : options_(options), policy_(policy), keys_(keys), open_(policy->classes() + 1, kNone) {}

void ValueLog::apply(const Write &write) {
  now_++;
  if (write.operation == Operation::kDelete) {
    policy_->before_delete(*this, write.key);
    drop(write.key);
  } else {
    policy_->before_put(*this, write.key);
    totals_.user += write.size;
    u32 value = find_shared(write);
    if (value != kNone) {
      totals_.shared += write.size;
    } else {
      value = values();
      values_.push_back({write.key, write.size});
      deaths_.push_back(kNever);
      if (options_.sharing != Sharing::kOff) {
        hashes_.push_back(write.hash);
        contents_[{write.hash, write.size}] = value;
      }
    }
    refer(write.key, value);
  }
  if (options_.budget > 0) {
    collect_to_budget();
  } else if (now_ % kDueEvery == 0) {
    for (u32 victim; (victim = due_victim()) != kNone;)
      collect(victim);
  }
}

u32 ValueLog::find_shared(const Write &write) const {
  if (options_.sharing == Sharing::kOff) return kNone;
  const auto found = contents_.find({write.hash, write.size});
  return found == contents_.end() ? kNone : found->second;
}

// The key's old value goes after the new one has come: the same bytes again are not written again.
void ValueLog::refer(u32 key, u32 value) {
  Value &v = values_[value];
  v.references++;
  v.written = now_;
  v.key = key;
  if (v.references == 1) {
    totals_.live += v.size;
    append(value, policy_->place_new(*this, value));
  }
  totals_.logical += v.size;
  if (keys_[key].value != kNone) drop(key);
  keys_[key] = {value, now_};
}

void ValueLog::drop(u32 key) {
  const u32 id = keys_[key].value;
  Value &v = values_[id];
  keys_[key] = {};
  totals_.logical -= v.size;
  if (--v.references > 0) return;
  deaths_[id] = now_;
  if (options_.sharing != Sharing::kOff) contents_.erase({hashes_[id], v.size});
  Segment &segment = segments_[v.segment];
  segment.live -= v.size;
  segment.live_values--;
  totals_.live -= v.size;
  totals_.dead += v.size;
}

void ValueLog::append(u32 value, u32 place_class) {
  Value &v = values_[value];
  u32 &open = open_[place_class];
  if (open != kNone && segments_[open].used + v.size > options_.segment_bytes) seal(open);
  if (open == kNone) open = new_segment(place_class);
  Segment &segment = segments_[open];
  segment.used += v.size;
  segment.live += v.size;
  segment.live_values++;
  segment.values.push_back(value);
  v.segment = open;
  totals_.written += v.size;
  totals_.space += v.size;
  if (segment.used >= options_.segment_bytes) seal(open);
}

void ValueLog::seal(u32 number) {
  Segment &segment = segments_[number];
  segment.sealed = now_;
  segment.end = policy_->end_of(*this, segment);
  sealed_.push_back(number);
  open_[segment.place_class] = kNone;
}

u32 ValueLog::new_segment(u32 place_class) {
  u32 number = static_cast<u32>(segments_.size());
  if (free_.empty()) {
    segments_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
    segments_[number] = {};
  }
  segments_[number].place_class = place_class;
  segments_[number].opened = now_;
  return number;
}

u32 ValueLog::best_victim() const {
  u32 best = kNone;
  double most = 0;
  for (const u32 number : sealed_) {
    const double score = policy_->score(*this, segments_[number]);
    if (score < 0 || (best != kNone && score <= most)) continue;
    best = number;
    most = score;
  }
  return best;
}

u32 ValueLog::due_victim() const {
  for (const u32 number : sealed_)
    if (segments_[number].end <= now_) return number;
  return kNone;
}

void ValueLog::collect(u32 number) {
  policy_->before_collection(*this, segments_[number]);
  sealed_.erase(std::find(sealed_.begin(), sealed_.end(), number));
  const Segment victim = std::move(segments_[number]);
  for (const u32 id : victim.values) {
    const Value &v = values_[id];
    if (v.segment != number || v.references == 0) continue;
    const bool cold = options_.sharing == Sharing::kCold && v.references > 1;
    totals_.moved += v.size;
    append(id, cold ? policy_->classes() : policy_->place_moved(*this, id, victim));
  }
  segments_[number] = {};
  free_.push_back(number);
  totals_.freed += victim.used;
  totals_.space -= victim.used;
  totals_.dead -= victim.used - victim.live;
  totals_.collections++;
  policy_->after_collection(*this);
}

bool ValueLog::over_budget() const {
  return static_cast<double>(totals_.space) >
         options_.budget * static_cast<double>(std::max(totals_.live, options_.segment_bytes));
}

// A policy that takes segments without garbage may go through all of them once, not for ever.
void ValueLog::collect_to_budget() {
  for (size_t most = sealed_.size(); most > 0 && over_budget(); most--) {
    const u32 victim = best_victim();
    if (victim == kNone) return;
    collect(victim);
  }
}

std::string ValueLog::find_wrong_segment() const {
  std::vector<u64> live(segments_.size());
  std::vector<u32> live_values(segments_.size());
  for (const Value &v : values_) {
    if (v.references == 0) continue;
    live[v.segment] += v.size;
    live_values[v.segment]++;
  }
  for (size_t i = 0; i < segments_.size(); i++) {
    u64 used = 0;
    for (const u32 id : segments_[i].values)
      used += values_[id].size;
    const std::string where = "segment " + std::to_string(i);
    if (segments_[i].live != live[i]) return differs(where.c_str(), segments_[i].live, live[i]);
    if (segments_[i].live_values != live_values[i]) return where + ": number of live values";
    if (segments_[i].used != used) return differs(where.c_str(), segments_[i].used, used);
  }
  return {};
}

std::string ValueLog::find_fault(const Totals &told) const {
  u64 live = 0, logical = 0, used = 0, references = 0, referring = 0;
  for (const Value &v : values_) {
    if (v.references > 0) live += v.size;
    references += v.references;
  }
  for (const Key &key : keys_) {
    if (key.value == kNone) continue;
    logical += values_[key.value].size;
    referring++;
  }
  for (const Segment &segment : segments_)
    used += segment.used;
  if (told.live != live) return differs("live bytes", told.live, live);
  if (told.logical != logical) return differs("bytes of keys", told.logical, logical);
  if (told.space != used) return differs("space", told.space, used);
  if (told.live + told.dead != told.space)
    return differs("live + dead", told.live + told.dead, used);
  if (references != referring) return differs("references", references, referring);
  if (told.user - told.shared + told.moved != told.written)
    return differs("written", told.written, told.user - told.shared + told.moved);
  if (told.written - told.freed != told.space)
    return differs("written - freed", told.written - told.freed, told.space);
  return find_wrong_segment();
}

}  // namespace ls::values
