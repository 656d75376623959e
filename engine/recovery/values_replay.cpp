// values_replay.cpp - files kept open while bytes come for them.
#include "recovery/values_replay.hpp"

#include <fcntl.h>

#include <algorithm>

namespace ls {

namespace {

constexpr size_t kMostOpen = 16;

std::string segment_path(const std::string &relation, u32 number) {
  return relation + "_fsm" + (number > 0 ? "." + std::to_string(number) : "");
}

}  // namespace

// Where a segment is, those before it are whole.
Status ValuesReplay::make(const std::string &relation, u32 number, Open *made) {
  for (u32 before = 0; before < number; before++) {
    File file;
    u64 bytes;
    LS_TRY(file.open(segment_path(relation, before).c_str(), O_CREAT));
    LS_TRY(file.size(&bytes));
    if (bytes < kSegmentBytes) LS_TRY(file.truncate(kSegmentBytes));
  }
  made->path = segment_path(relation, number);
  return made->file.open(made->path.c_str(), O_CREAT);
}

// LS_NOT_FOUND: the relation has gone.  The host removes all files of a relation together, so one
// that is still there needs no look at the first.
Status ValuesReplay::segment(const std::string &relation, u32 number, File **file) {
  const std::string path = segment_path(relation, number);
  auto found = std::ranges::find(open_, path, &Open::path);
  if (found != open_.end()) {
    bool linked;
    LS_TRY(found->file.is_linked(&linked));
    if (!linked) {
      open_.erase(found);
      found = open_.end();
    }
  }
  if (found == open_.end()) {
    File first;
    LS_TRY(first.open(relation.c_str(), 0));
    if (open_.size() == kMostOpen) open_.erase(std::ranges::min_element(open_, {}, &Open::used));
    Open made;
    LS_TRY(make(relation, number, &made));
    open_.push_back(std::move(made));
    found = open_.end() - 1;
  }
  found->used = ++uses_;
  *file = &found->file;
  return kOk;
}

Status ValuesReplay::write(const char *relation, PageNo page, std::span<const u8> bytes,
                           bool *there) {
  *there = true;
  const std::string path = root_ + "/" + relation;
  pages_.assign(bytes.begin(), bytes.end());
  pages_.resize((bytes.size() + kPageSize - 1) / kPageSize * kPageSize);
  for (size_t done = 0; done < pages_.size();) {
    const u64 offset = u64{page} * kPageSize + done;
    const size_t part = static_cast<size_t>(
        std::min<u64>(pages_.size() - done, kSegmentBytes - offset % kSegmentBytes));
    File *file;
    const Status status = segment(path, static_cast<u32>(offset / kSegmentBytes), &file);
    *there = code(status) != LS_NOT_FOUND;
    if (!*there) return kOk;
    LS_TRY(status);
    LS_TRY(file->write_at(offset % kSegmentBytes, pages_.data() + done, part));
    done += part;
  }
  return kOk;
}

}  // namespace ls
