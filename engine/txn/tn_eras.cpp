// tn_eras.cpp - the eras' file, and the look-up in it.
#include "txn/tn_eras.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "os/file.hpp"

namespace ls {

namespace {

constexpr u64 kMagic = 0x534152454e54534c;  // "LSTNERAS"
constexpr u32 kVersion = 1;
constexpr size_t kPathBytes = 640;

struct EraFileHeader {
  u64 magic;
  u32 version;
  u32 crc;   // crc32c of all, with this field zero
  u32 count;
  u32 zero;
};
static_assert(sizeof(EraFileHeader) == 24);

void era_path(const char *data_dir, char *path) {
  std::snprintf(path, kPathBytes, "%s/tn_eras", data_dir);
}

u32 crc_of(std::vector<u8> bytes) {
  std::memset(bytes.data() + offsetof(EraFileHeader, crc), 0, sizeof(u32));
  return crc32c(0, bytes.data(), bytes.size());
}

}  // namespace

bool TnEras::add(Tn first, u64 offset) {
  const u32 before = count_;
  while (count_ > 0 && eras_[count_ - 1].first >= first) count_--;
  if (count_ > 0 && eras_[count_ - 1].offset == offset) return count_ != before;
  if (count_ == kMaxTnEras) {
    std::copy(eras_ + 1, eras_ + count_, eras_);
    count_--;
  }
  LS_ASSERT(count_ < kMaxTnEras);                             // ERA-3
  LS_ASSERT(count_ == 0 || eras_[count_ - 1].first < first);  // ERA-1
  eras_[count_++] = {first, offset};
  return true;
}

u64 TnEras::full_xid(Tn tn) const {
  const TnEra *end = eras_ + count_;
  auto begins_behind = [](Tn value, const TnEra &era) { return value < era.first; };
  const TnEra *behind = std::upper_bound(eras_, end, tn, begins_behind);
  return behind == eras_ ? 0 : tn - behind[-1].offset;
}

Status TnEras::read(const char *data_dir, bool *exists) {
  char path[kPathBytes];
  era_path(data_dir, path);
  *exists = false;
  File file;
  if (Status s = file.open(path, 0); !ok(s)) return code(s) == LS_NOT_FOUND ? kOk : s;
  *exists = true;
  // One byte more than there can be.
  std::vector<u8> bytes(sizeof(EraFileHeader) + sizeof eras_ + 1);
  size_t got = 0;
  LS_TRY(file.read_at(0, bytes.data(), bytes.size(), &got));
  bytes.resize(got);
  EraFileHeader header{};
  if (got >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic == kMagic && header.version != kVersion)
    return fail_page(path, UINT32_MAX, "file of transaction numbers has version %u, "
                     "this engine reads version %u", header.version, kVersion);
  const size_t expected = sizeof header + header.count * sizeof(TnEra);
  if (header.magic != kMagic || header.count > kMaxTnEras || got != expected ||
      header.crc != crc_of(bytes))
    return fail_page(path, UINT32_MAX, "file of transaction numbers is damaged; "
                     "restore it from a backup of the whole cluster");
  count_ = header.count;
  std::memcpy(eras_, bytes.data() + sizeof header, count_ * sizeof(TnEra));
  return kOk;
}

Status TnEras::write(const char *data_dir) const {
  char path[kPathBytes];
  era_path(data_dir, path);
  std::vector<u8> bytes(sizeof(EraFileHeader) + count_ * sizeof(TnEra));
  EraFileHeader header{kMagic, kVersion, 0, count_, 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, eras_, count_ * sizeof(TnEra));
  header.crc = crc_of(bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return file_write_atomically(path, bytes);
}

}  // namespace ls
