// tn_eras.cpp - the eras' file, and the look-up in it.
#include "txn/tn_eras.hpp"

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

// Of a file's bytes, which begin with this header.
u32 crc_of(EraFileHeader header, const std::vector<u8> &bytes) {
  header.crc = 0;
  return crc32c(crc32c(0, &header, sizeof header), bytes.data() + sizeof header,
                bytes.size() - sizeof header);
}

}  // namespace

// ERA-5
bool TnEras::add(Tn first, u64 offset) {
  const u32 before = changes_.load(std::memory_order_relaxed);
  LS_ASSERT(before % 2 == 0);
  changes_.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const bool added = add_one(first, offset);
  changes_.store(before + 2, std::memory_order_release);
  return added;
}

bool TnEras::add_one(Tn first, u64 offset) {
  const u32 before = count();
  u32 n = before;
  while (n > 0 && era(n - 1).first >= first) n--;
  set_count(n);
  if (n > 0 && era(n - 1).offset == offset) return n != before;
  if (n == kMaxTnEras) {
    for (u32 i = 1; i < n; i++) set_era(i - 1, era(i));
    n--;
  }
  LS_ASSERT(n < kMaxTnEras);                         // ERA-3
  LS_ASSERT(n == 0 || era(n - 1).first < first);     // ERA-1
  set_era(n, {first, offset});
  set_count(n + 1);
  return true;
}

u64 TnEras::full_xid(Tn tn) const {
  for (;;) {
    const u32 before = changes_.load(std::memory_order_acquire);
    u32 low = 0, high = count();   // the first era that begins behind it
    while (low < high) {
      const u32 middle = (low + high) / 2;
      if (era(middle).first <= tn) low = middle + 1;
      else high = middle;
    }
    const u64 full_xid = low == 0 ? 0 : tn - era(low - 1).offset;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && changes_.load(std::memory_order_relaxed) == before) return full_xid;
  }
}

Status TnEras::read(const char *data_dir, bool *exists) {
  char path[kPathBytes];
  era_path(data_dir, path);
  *exists = false;
  File file;
  if (Status s = file.open(path, 0); !ok(s)) return code(s) == LS_NOT_FOUND ? kOk : s;
  *exists = true;
  // One byte more than there can be.
  std::vector<u8> bytes(sizeof(EraFileHeader) + kMaxTnEras * sizeof(TnEra) + 1);
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
      header.crc != crc_of(header, bytes))
    return fail_page(path, UINT32_MAX, "file of transaction numbers is damaged; "
                     "restore it from a backup of the whole cluster");
  for (u32 i = 0; i < header.count; i++) {
    TnEra read;
    std::memcpy(&read, bytes.data() + sizeof header + i * sizeof read, sizeof read);
    set_era(i, read);
  }
  set_count(header.count);
  return kOk;
}

Status TnEras::write(const char *data_dir) const {
  char path[kPathBytes];
  era_path(data_dir, path);
  std::vector<u8> bytes(sizeof(EraFileHeader) + count() * sizeof(TnEra));
  EraFileHeader header{kMagic, kVersion, 0, count(), 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  for (u32 i = 0; i < header.count; i++) {
    const TnEra written = era(i);
    std::memcpy(bytes.data() + sizeof header + i * sizeof written, &written, sizeof written);
  }
  header.crc = crc_of(header, bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return file_write_atomically(path, bytes);
}

}  // namespace ls
