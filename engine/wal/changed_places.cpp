// changed_places.cpp - a page is named once; which ones were is remembered by hash.
#include "wal/changed_places.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "wal/log_sink.hpp"
#include "wal/log_slot.hpp"

namespace ls {

namespace {

constexpr u64 kMultiplier = 0x9e3779b97f4a7c15;   // 2^64 / golden ratio

}  // namespace

void sort_places(std::span<ls_page_place> places) {
  const auto order = [](const ls_page_place &place) {
    const ls_rel_key &key = place.relation;
    return std::tuple(key.tablespace, key.database, key.relation, place.page);
  };
  std::sort(places.begin(), places.end(),
            [&](const auto &a, const auto &b) { return order(a) < order(b); });
}

void ChangedPlaces::begin(const RoundState &state) {
  LS_ASSERT(state.mutex.is_locked() && count_ == 0);
  if (state.places_generation == generation_ && !state.places_each_time) return;
  generation_ = state.places_generation;
  named_.fill({});
}

// False: it is known.
bool ChangedPlaces::remember(FileNo file, PageNo page) {
  const u64 hash = (file * kMultiplier ^ page) * kMultiplier;
  Named &named = named_[hash >> 32 & (named_.size() - 1)];
  if (named.file == file && named.page == page) return false;
  named = {file, page};
  return true;
}

const ls_rel_key *ChangedPlaces::find(FileNo number) {
  File &file = files_[number % files_.size()];
  if (file.number == number) return &file.relation;
  if (!names_.find(number, &file.relation)) {
    file.number = 0;
    return nullptr;
  }
  file.number = number;
  return &file.relation;
}

void ChangedPlaces::add(const LogRecord &record) {
  if (!has_page_operations(record.kind)) return;
  for (LogBytes operations = record.body; !operations.empty();) {
    LogOp op;
    LS_CHECK(load_op(&operations, &op) == nullptr, "log buffer holds a broken operation");
    if (!remember(op.file, op.page)) continue;
    const ls_rel_key *relation = find(op.file);
    if (!relation) continue;
    places_[count_++] = {*relation, op.page};
    if (count_ == places_.size()) insert();
  }
}

void ChangedPlaces::insert() {
  if (count_ == 0) return;
  sort_places({places_.data(), count_});
  host_log()->insert_places(places_.data(), count_, false);
  count_ = 0;
}

}  // namespace ls
