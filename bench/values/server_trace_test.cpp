// server_trace_test.cpp - tests of the converter of servers' traces.
#include "server_trace_test.hpp"

#include <random>

#include "base/crc32c.hpp"
#include "file.hpp"
#include "server_trace.hpp"
#include "test_file.hpp"

namespace ls::values {
namespace {

constexpr size_t kRecord = 64;

struct Event {
  char operation;  // '+' put, '-' deletion
  u32 value;
  u32 bytes = 100;
  u32 command = 0;
  u32 session = 1;
  u32 table = 16384;
  u64 time = 1000;
};

void seal(u8 *record) { put<u32>(record + 4, crc32c(0, record + 8, kRecord - 8)); }

std::string record_of(const Event &event) {
  u8 record[kRecord] = {'L', 'S', 'V', '1'};
  const bool is_put = event.operation == '+';
  put<u64>(record + 8, event.time);
  put<u64>(record + 16, is_put ? 7 * event.value : 0);
  put<u32>(record + 24, 5);
  put<u32>(record + 28, event.table);
  put<u32>(record + 32, event.value);
  put<u32>(record + 36, event.bytes);
  put<u32>(record + 40, event.session);
  put<u32>(record + 44, 1);
  put<u32>(record + 48, event.command);
  record[52] = is_put ? 1 : 2;
  put<u64>(record + 56, 99);
  seal(record);
  return {reinterpret_cast<char *>(record), kRecord};
}

using Events = std::vector<Event>;

// The operations of the trace and their keys: "+0 +1 -0", or what is wrong.
std::string keys_of(const Events &events, Conversion *conversion) {
  const TestFile file;
  std::string all, why, keys;
  for (const Event &event : events)
    all += record_of(event);
  file.set(all);
  Trace trace;
  if (!convert_server_trace(file.path(), &trace, conversion, &why)) return why;
  for (const Write &write : trace.writes) {
    keys += keys.empty() ? "" : " ";
    keys += (write.operation == Operation::kPut ? "+" : "-") + std::to_string(write.key);
  }
  return keys;
}

struct Case {
  const char *name;
  const char *keys;
  Events events;
  u64 left_out = 0;
};

std::string difference(const std::vector<Case> &cases) {
  for (const auto &[name, keys, events, left_out] : cases) {
    Conversion conversion;
    const std::string found = keys_of(events, &conversion);
    if (found != keys) return std::string(name) + ": " + found + " instead of " + keys;
    if (conversion.left_out != left_out) return std::string(name) + ": left out";
  }
  return {};
}

}  // namespace

std::string replaced_values_are_one_key() {
  return difference({
      {"updates",
       "+0 +0 +0",
       {{'+', 1}, {'+', 2, 9, 1}, {'-', 1, 9, 1}, {'+', 3, 9, 2}, {'-', 2, 9, 2}}},
      {"a row goes", "+0 +0 -0", {{'+', 1}, {'+', 2, 9, 1}, {'-', 1, 9, 1}, {'-', 2, 9, 2}}},
      {"rows of one command",
       "+0 +1 +0 +1",
       {{'+', 1, 50},
        {'+', 2, 5},
        {'+', 3, 9, 1},
        {'-', 1, 50, 1},
        {'+', 4, 20, 1},
        {'-', 2, 5, 1}}},
      {"columns, the larger one first",
       "+0 +1 +0 +1",
       {{'+', 1, 90},
        {'+', 2, 50},
        {'+', 3, 80, 1},
        {'+', 4, 60, 1},
        {'-', 2, 50, 1},
        {'-', 1, 90, 1}}},
      {"one column of two",
       "+0 +1 +1",
       {{'+', 1, 90}, {'+', 2, 50}, {'+', 3, 80, 1}, {'-', 2, 50, 1}}},
      {"a column becomes small",
       "+0 +1 +0 -1",
       {{'+', 1, 90}, {'+', 2, 50}, {'+', 3, 80, 1}, {'-', 1, 90, 1}, {'-', 2, 50, 1}}},
      {"there before the trace",
       "+0 +0",
       {{'+', 2}, {'-', 1}, {'-', 9, 9, 1}, {'+', 3, 9, 2}, {'-', 2, 9, 2}},
       1},
  });
}

std::string what_is_rolled_back_or_copied_does_no_harm() {
  return difference({
      {"an update, done again",
       "+0 +0 +0 -0",
       {{'+', 1},
        {'+', 2, 9, 1},
        {'-', 1, 9, 1},
        {'+', 3, 9, 2},
        {'-', 1, 9, 2},
        {'-', 3, 9, 3}}},
      {"a deletion, done again", "+0 -0", {{'+', 1}, {'-', 1, 9, 1}, {'-', 1, 9, 2}}, 1},
      {"a deletion, then an update",
       "+0 -0 +0",
       {{'+', 1}, {'-', 1, 9, 1}, {'+', 2, 9, 2}, {'-', 1, 9, 2}}},
      {"a table written anew", "+0 +0", {{'+', 1}, {'+', 1, 9, 1}}},
      {"with copies of old versions",
       "+0 +0 +0 +1 -1",
       {{'+', 1},
        {'+', 2, 9, 1},
        {'-', 1, 9, 1},
        {'+', 2, 9, 2},
        {'+', 1, 9, 2},
        {'-', 1, 9, 2}}},
      {"a row given up beside others",
       "+0 +1 +0 -1",
       {{'+', 1}, {'+', 5, 9, 1}, {'+', 6, 9, 1}, {'-', 5, 9, 1}, {'-', 1, 9, 1}}},
  });
}

std::string commands_and_sessions_are_kept_apart() {
  return difference({
      {"insert, then delete", "+0 +1 -0", {{'+', 1}, {'+', 2, 9, 1}, {'-', 1, 9, 2}}},
      {"tables", "+0 +1 -0", {{'+', 1}, {'+', 2, 9, 1, 1, 20000}, {'-', 1, 9, 1}}},
      {"the same number in two tables", "+0 +1 -1",
       {{'+', 1}, {'+', 1, 9, 0, 1, 20000}, {'-', 1, 9, 1, 1, 20000}}},
      {"sessions", "+0 +1 -0", {{'+', 1}, {'+', 2, 9, 1, 1}, {'-', 1, 9, 1, 2}}},
      {"one in the middle of another's row", "+0 +1 +0 +1",
       {{'+', 1}, {'+', 2}, {'+', 3, 9, 1, 1}, {'+', 4, 9, 1, 2}, {'-', 2, 9, 1, 2},
        {'-', 1, 9, 1, 1}}},
  });
}

std::string damaged_server_traces_are_refused() {
  const TestFile file;
  const std::string good = record_of({'+', 1}) + record_of({'+', 2}) + record_of({'-', 1});
  Trace trace;
  Conversion conversion;
  std::string why;
  const auto believed = [&](const std::string &bytes) {
    file.set(bytes);
    return convert_server_trace(file.path(), &trace, &conversion, &why);
  };
  if (!believed(good)) return why;
  for (size_t bit = 0; bit < 8 * good.size(); bit++) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    if (believed(bad)) return "bit " + std::to_string(bit) + " is believed";
  }
  for (size_t length = 0; length < good.size(); length++)
    if (believed(good.substr(0, length)) != (length != 0 && length % kRecord == 0))
      return "cut off at " + std::to_string(length);
  if (believed(good + std::string(kRecord, '\0'))) return "zeros are believed";
  // under a right checksum
  struct Damage {
    size_t at;
    u64 value;
  };
  const Damage damages[] = {{2 * kRecord + 16, 1},          // hash of a deletion
                            {24, 0},                        // no table
                            {28, 0},                        // no TOAST table
                            {32, 0},                        // no value
                            {36, 0},                        // no bytes
                            {36, kMaxValueBytes + 1},
                            {52, 0},                        // operation
                            {52, 3},
                            {52, 0x01000001}};              // bytes that are zero
  for (const auto &[at, value] : damages) {
    std::string bad = good;
    u8 *record = reinterpret_cast<u8 *>(bad.data()) + at / kRecord * kRecord;
    const size_t width = at % kRecord == 16 || at == 24 ? 8 : 4;
    for (size_t i = 0; i < width; i++)
      record[at % kRecord + i] = static_cast<u8>(value >> 8 * i);
    seal(record);
    if (believed(bad)) return "byte " + std::to_string(at) + " is believed";
  }
  return {};
}

std::string any_server_trace_is_a_trace() {
  std::mt19937_64 random(1);
  for (u32 round = 0; round < 200; round++) {
    std::string all, why;
    u64 puts = 0;
    for (u32 i = 0; i < 300; i++) {
      const Event event = {.operation = random() % 2 != 0 ? '+' : '-',
                           .value = static_cast<u32>(1 + random() % 20),
                           .bytes = static_cast<u32>(1 + random() % 5),
                           .command = static_cast<u32>(random() % 2),
                           .session = static_cast<u32>(random() % 3),
                           .table = static_cast<u32>(1 + random() % 2),
                           .time = random()};
      puts += event.operation == '+';
      all += record_of(event);
    }
    const TestFile file, out;
    file.set(all);
    Trace trace, read;
    Conversion c;
    if (!convert_server_trace(file.path(), &trace, &c, &why)) return why;
    if (!write_trace(out.path(), trace, &why) || !read_trace(out.path(), &read, &why)) return why;
    if (c.records != 300 || c.fresh + c.replacing != puts || read.keys != trace.keys ||
        c.fresh + 2 * c.replacing + c.deletes + c.left_out != c.records ||
        puts + c.deletes != trace.writes.size())
      return "round " + std::to_string(round) + " does not add up";
  }
  return {};
}

}  // namespace ls::values
