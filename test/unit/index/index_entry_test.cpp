// The bytes of entries: what is prefix-free as keys stays together as entries.
#include "index/index_entry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace ls {
namespace {

std::string text(Bytes bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}
Bytes bytes(const std::string &s) {
  return Bytes(reinterpret_cast<const u8 *>(s.data()), s.size());
}
std::string entry(const std::string &key, u64 row_id) { return text(EntryKey(bytes(key), row_id)); }

// ENTRY-1
TEST(IndexEntry, entries_of_a_key_lie_side_by_side_and_separators_keep_them_together) {
  // Framed, so prefix-free, though their bodies are prefixes of each other and look like row ids.
  std::vector<std::string> keys;
  for (const std::string &body : {std::string(), std::string("a"), std::string("ab"),
                                  std::string("a\1", 2), std::string(5, '\1'),
                                  std::string(5, '\xff'), std::string(9, '\xff')})
    keys.push_back("\1" + body + std::string(1, '\0'));
  std::sort(keys.begin(), keys.end());
  const std::vector<u64> rows = {0, 1, 255, 256, u64{1} << 32, LS_MAX_ROW_ID};
  std::vector<std::string> entries;
  for (const std::string &key : keys) {
    for (const u64 row : rows) entries.push_back(entry(key, row));
  }
  std::vector<std::string> shuffled = entries;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(3));
  std::sort(shuffled.begin(), shuffled.end(), [](const std::string &a, const std::string &b) {
    return compare_keys(bytes(a), bytes(b)) < 0;
  });
  EXPECT_EQ(shuffled, entries) << "by key, then by row id";

  for (size_t k = 0; k < keys.size(); k++) {
    const std::string low = entry(keys[k], 0), high = entry(keys[k], LS_MAX_ROW_ID);
    for (const std::string &e : entries) {
      const bool within = compare_keys(bytes(low), bytes(e)) <= 0 &&
                          compare_keys(bytes(e), bytes(high)) <= 0;
      EXPECT_EQ(within, text(entry_key(bytes(e))) == keys[k]);
    }
    if (k == 0) continue;
    // A leaf has the entries from its lower fence on.
    u8 buffer[kMaxKeyBytes];
    const std::string before = entry(keys[k - 1], LS_MAX_ROW_ID);
    const Bytes separator(buffer, shortest_between(bytes(before), bytes(low), buffer));
    for (const std::string &e : entries) {
      EXPECT_EQ(compare_keys(separator, bytes(e)) <= 0, text(entry_key(bytes(e))) >= keys[k]);
    }
  }
}

TEST(IndexEntry, row_ids_come_back) {
  for (const u64 row : {u64{0}, u64{1}, u64{0x0102030405}, LS_MAX_ROW_ID}) {
    const std::string e = entry("key", row);
    EXPECT_EQ(entry_row_id(bytes(e)), row);
    EXPECT_EQ(text(entry_key(bytes(e))), "key");
  }
}

}  // namespace
}  // namespace ls
