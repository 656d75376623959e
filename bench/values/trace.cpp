// trace.cpp - reads and writes traces.
#include "trace.hpp"

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "file.hpp"

namespace ls::values {
namespace {

constexpr char kMagic[8] = {'L', 'S', 'V', 'A', 'L', 'U', 'E', 'S'};
constexpr u32 kVersion = 1, kRecordBytes = 40, kHeadBytes = 16;
constexpr u64 kMaxRecords = u64{1} << 31;

// What the records so far have made: which keys there are, and which of them have a value.
struct Reading {
  std::unordered_map<u64, u32> keys;
  std::vector<bool> present;
  u64 time = 0;
};

// What is wrong with a record, or null; the write is filled in but for that case.
const char *take(const u8 *record, Reading *reading, Write *write) {
  write->time = get<u64>(record);
  const u64 key = get<u64>(record + 8);
  write->hash = {get<u64>(record + 16), get<u64>(record + 24)};
  write->size = get<u32>(record + 32);
  write->operation = static_cast<Operation>(record[36]);
  if (record[37] != 0 || record[38] != 0 || record[39] != 0) return "bytes that are not zero";
  if (write->time < reading->time) return "a time before the last one";
  reading->time = write->time;
  const auto [place, fresh] = reading->keys.try_emplace(key, reading->keys.size());
  if (fresh) reading->present.push_back(false);
  write->key = place->second;
  switch (write->operation) {
    case Operation::kPut:
      if (write->size == 0 || write->size > kMaxValueBytes) return "a size that no value has";
      reading->present[write->key] = true;
      return nullptr;
    case Operation::kDelete:
      if (write->size != 0 || !(write->hash == Hash{})) return "a delete with a value";
      if (!reading->present[write->key]) return "a delete of a key that is not there";
      reading->present[write->key] = false;
      return nullptr;
  }
  return "an unknown operation";
}

}  // namespace

bool read_trace(const std::string &path, Trace *trace, std::string *why) {
  const File file(fopen(path.c_str(), "rb"));
  if (!file) return fail(why, path, strerror(errno));
  u8 head[kHeadBytes], record[kRecordBytes];
  if (fread(head, 1, kHeadBytes, file.get()) != kHeadBytes || memcmp(head, kMagic, 8) != 0)
    return fail(why, path, "no trace of values");
  if (get<u32>(head + 8) != kVersion || get<u32>(head + 12) != kRecordBytes)
    return fail(why, path, "a version of traces that is not known here");
  Trace read;
  Reading reading;
  for (;;) {
    const size_t bytes = fread(record, 1, kRecordBytes, file.get());
    const std::string where = "record " + std::to_string(read.writes.size()) + " has ";
    if (ferror(file.get())) return fail(why, path, strerror(errno));
    if (bytes == 0) break;
    if (bytes < kRecordBytes) return fail(why, path, where + "no end");
    if (read.writes.size() == kMaxRecords) return fail(why, path, "too many records");
    Write write;
    if (const char *what = take(record, &reading, &write)) return fail(why, path, where + what);
    read.writes.push_back(write);
  }
  read.keys = static_cast<u32>(reading.keys.size());
  *trace = std::move(read);
  return true;
}

bool write_trace(const std::string &path, const Trace &trace, std::string *why) {
  File file(fopen(path.c_str(), "wb"));
  if (!file) return fail(why, path, strerror(errno));
  u8 head[kHeadBytes] = {}, record[kRecordBytes] = {};
  memcpy(head, kMagic, 8);
  put<u32>(head + 8, kVersion);
  put<u32>(head + 12, kRecordBytes);
  bool good = fwrite(head, 1, kHeadBytes, file.get()) == kHeadBytes;
  for (const Write &write : trace.writes) {
    put<u64>(record, write.time);
    put<u64>(record + 8, write.key);
    put<u64>(record + 16, write.hash.low);
    put<u64>(record + 24, write.hash.high);
    put<u32>(record + 32, write.size);
    record[36] = static_cast<u8>(write.operation);
    good = good && fwrite(record, 1, kRecordBytes, file.get()) == kRecordBytes;
  }
  good = fclose(file.release()) == 0 && good;
  return good || fail(why, path, strerror(errno));
}

}  // namespace ls::values
