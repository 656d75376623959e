// server_trace.cpp - reads what a server has written, and finds its keys.
#include "server_trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/crc32c.hpp"
#include "file.hpp"

namespace ls::values {
namespace {

constexpr u32 kRecordBytes = 64, kMagic = 0x3156534C, kChecked = 8;
constexpr u64 kMaxRecords = u64{1} << 31;
constexpr u32 kNone = ~u32{0};
// A row has fewer columns; of the puts of a long command the last ones are enough.
constexpr size_t kMaxPuts = 2048;

u64 mixed(u64 a, u64 b) {
  const u64 product = (a ^ 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93;
  return (product ^ (product >> 32) ^ b) * 0xD6E8FEB86659FD93;
}

struct Pointer {
  u64 table;  // database and TOAST table
  u32 value;
  bool operator==(const Pointer &) const = default;
};

struct Session {
  u64 start;
  u32 pid;
  bool operator==(const Session &) const = default;
};

struct Mix {
  size_t operator()(const Pointer &pointer) const { return mixed(pointer.table, pointer.value); }
  size_t operator()(const Session &session) const { return mixed(session.start, session.pid); }
};

struct Record {
  u64 time, hash;
  Pointer pointer;
  u32 bytes;
  Operation operation;
  bool is_told = false;  // a deletion: by the put that replaces the value
  u32 replaced = kNone;  // a put: the record of the deletion
};

// What one command has done to one table since its last put after a deletion: to one row, or to
// several that it has inserted.
struct Group {
  u64 table = 0;
  u64 command = 0;  // and transaction
  std::vector<u32> puts, deletes;
};

struct Reading {
  std::vector<Record> records;
  std::unordered_map<Session, Group, Mix> groups;
  std::unordered_set<u64> tables;
};

// The larger a value, the earlier it is stored: so values of a row are paired by size.
void resolve(std::vector<Record> *records, Group *group) {
  auto &[table, command, puts, deletes] = *group;
  // deletions belong to the last row
  if (puts.size() > deletes.size()) puts.erase(puts.begin(), puts.end() - deletes.size());
  const auto larger = [records](u32 a, u32 b) {
    return (*records)[a].bytes > (*records)[b].bytes;
  };
  std::stable_sort(puts.begin(), puts.end(), larger);
  std::stable_sort(deletes.begin(), deletes.end(), larger);
  for (size_t i = 0; i < std::min(puts.size(), deletes.size()); i++) {
    (*records)[puts[i]].replaced = deletes[i];
    (*records)[deletes[i]].is_told = true;
  }
  puts.clear();
  deletes.clear();
}

// A row that was given up, or a copy of an old version: stored and deleted in one command.
bool take_own_put(const std::vector<Record> &records, std::vector<u32> *puts, Pointer pointer) {
  for (size_t i = puts->size(); i-- > 0;) {
    if (!(records[(*puts)[i]].pointer == pointer)) continue;
    puts->erase(puts->begin() + i);
    return true;
  }
  return false;
}

void add_to_group(Reading *reading, Session session, u64 command) {
  const u32 index = static_cast<u32>(reading->records.size() - 1);
  const Record &record = reading->records.back();
  Group &group = reading->groups[session];
  const bool is_put = record.operation == Operation::kPut;
  if (group.table != record.pointer.table || group.command != command ||
      (is_put && !group.deletes.empty()) || group.deletes.size() == kMaxPuts) {
    resolve(&reading->records, &group);
    group.table = record.pointer.table;
    group.command = command;
  }
  if (!is_put) {
    if (!take_own_put(reading->records, &group.puts, record.pointer))
      group.deletes.push_back(index);
    return;
  }
  if (group.puts.size() == 2 * kMaxPuts)
    group.puts.erase(group.puts.begin(), group.puts.begin() + kMaxPuts);
  group.puts.push_back(index);
}

// What is wrong with a record, or null.
const char *take(const u8 *bytes, Reading *reading) {
  if (get<u32>(bytes) != kMagic) return "no mark of a record";
  if (get<u32>(bytes + 4) != crc32c(0, bytes + kChecked, kRecordBytes - kChecked))
    return "a wrong checksum";
  const u32 database = get<u32>(bytes + 24), toast_table = get<u32>(bytes + 28);
  const u32 transaction = get<u32>(bytes + 44), command = get<u32>(bytes + 48);
  Record record = {.time = get<u64>(bytes + 8),
                   .hash = get<u64>(bytes + 16),
                   .pointer = {u64{database} << 32 | toast_table, get<u32>(bytes + 32)},
                   .bytes = get<u32>(bytes + 36),
                   .operation = static_cast<Operation>(bytes[52])};
  if (bytes[53] != 0 || bytes[54] != 0 || bytes[55] != 0) return "bytes that are not zero";
  if (database == 0 || toast_table == 0 || record.pointer.value == 0) return "no value";
  if (record.bytes == 0 || record.bytes > kMaxValueBytes) return "a size that no value has";
  if (record.operation != Operation::kPut && record.operation != Operation::kDelete)
    return "an unknown operation";
  if (record.operation == Operation::kDelete && record.hash != 0) return "a hash of a deletion";
  reading->records.push_back(record);
  reading->tables.insert(record.pointer.table);
  add_to_group(reading, {get<u64>(bytes + 56), get<u32>(bytes + 40)},
               u64{transaction} << 32 | command);
  return nullptr;
}

bool read_records(const std::string &path, Reading *reading, std::string *why) {
  const File file(fopen(path.c_str(), "rb"));
  if (!file) return fail(why, path, strerror(errno));
  u8 bytes[kRecordBytes];
  for (;;) {
    const size_t got = fread(bytes, 1, kRecordBytes, file.get());
    const std::string where = "record " + std::to_string(reading->records.size()) + " has ";
    if (ferror(file.get())) return fail(why, path, strerror(errno));
    if (got == 0) break;
    if (got < kRecordBytes) return fail(why, path, where + "no end");
    if (reading->records.size() == kMaxRecords) return fail(why, path, "too many records");
    if (const char *what = take(bytes, reading)) return fail(why, path, where + what);
  }
  for (auto &[session, group] : reading->groups)
    resolve(&reading->records, &group);
  if (reading->records.empty()) return fail(why, path, "no records");
  return true;
}

// The keys, and the values that they have had.  A value that was replaced keeps its key: the
// replacement may have been rolled back, and come again.
class Keys {
 public:
  u32 put(const Record &record, const std::vector<Record> &records) {
    u32 key = kNone;
    if (record.replaced != kNone)
      key = find(records[record.replaced].pointer);
    else if (const u32 own = find(record.pointer); own != kNone && now_[own] == record.pointer)
      key = own;  // the table was written anew; of older versions it makes copies
    if (key == kNone) {
      key = static_cast<u32>(now_.size());
      now_.push_back(record.pointer);
      present_.push_back(true);
    }
    now_[key] = record.pointer;
    present_[key] = true;
    keys_[record.pointer] = key;
    return key;
  }

  // kNone: there was no such value, or it is deleted already.
  u32 remove(const Pointer &pointer) {
    const u32 key = find(pointer);
    if (key == kNone || !present_[key]) return kNone;
    present_[key] = false;
    return key;
  }

  u32 size() const { return static_cast<u32>(now_.size()); }

 private:
  u32 find(const Pointer &pointer) const {
    const auto found = keys_.find(pointer);
    return found == keys_.end() ? kNone : found->second;
  }

  std::unordered_map<Pointer, u32, Mix> keys_;
  std::vector<Pointer> now_;
  std::vector<bool> present_;
};

}  // namespace

bool convert_server_trace(const std::string &path, Trace *trace, Conversion *conversion,
                          std::string *why) {
  Reading reading;
  if (!read_records(path, &reading, why)) return false;
  *trace = {};
  *conversion = {.records = reading.records.size(),
                 .sessions = reading.groups.size(),
                 .tables = reading.tables.size()};
  Keys keys;
  u64 time = 0;
  for (const Record &record : reading.records) {
    // sessions look at the clock before they append, and a clock may be set back
    time = std::max(time, record.time);
    if (record.operation == Operation::kPut) {
      (record.replaced == kNone ? conversion->fresh : conversion->replacing)++;
      const u32 key = keys.put(record, reading.records);
      trace->writes.push_back({time, {record.hash, 0}, key, record.bytes, Operation::kPut});
    } else if (!record.is_told) {
      const u32 key = keys.remove(record.pointer);
      (key == kNone ? conversion->left_out : conversion->deletes)++;
      if (key != kNone) trace->writes.push_back({time, {}, key, 0, Operation::kDelete});
    }
  }
  trace->keys = keys.size();
  return true;
}

}  // namespace ls::values
