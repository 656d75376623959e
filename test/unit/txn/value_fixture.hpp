// value_fixture.hpp - two sessions and a file of values.
#pragma once
#include <random>

#include "txn/row_read.hpp"
#include "txn/value_keeper.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "vlog/value_pages.hpp"

namespace ls::txn_test {

class Values : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  FileSlot &values{*engine.open("values", LS_REL_VALUES)};
  bool share = false;   // values that are inserted
  ValueKeeping keeping;

  u64 draw(u32 count, bool *used) {
    ls_value_range drawn{};
    TXN_EXPECT_OK(value_ids(a.worker(), values, count, &drawn));
    *used = drawn.used;
    return drawn.first;
  }
  static u64 row_of(u64 value) { return value * LS_ROWS_PER_VALUE; }
  Status insert(Session &s, u64 value, const std::string &data) {
    return value_insert(s.worker(), values,
                        {value, bytes_of(data).data(), static_cast<u32>(data.size()), share},
                        s.cid++);
  }
  Status slice(Session &s, u64 value, const ls_value_slice &part, std::string *out) {
    out->assign(part.bytes, '?');
    return value_read(s.worker(), values, {value, part.value_bytes, part.offset, part.bytes},
                      reinterpret_cast<u8 *>(out->data()));
  }
  std::string read(Session &s, u64 value, u32 size = 5) {
    std::string data;
    const Status status = slice(s, value, {0, size, 0, size}, &data);
    if (code(status) == LS_NOT_FOUND) return "-";
    TXN_EXPECT_OK(status);
    return data;
  }
  Status remove(Session &s, u64 value, u32 size = 5) {
    return value_delete(s.worker(), values, value, size, s.cid++);
  }
  static std::string text(u64 value, size_t bytes) {
    std::string data(bytes, '\0');
    std::mt19937_64 random(value);
    for (char &c : data) c = static_cast<char>(random());
    return data;
  }
  ls_value_stats stats() {
    ls_value_stats now{};
    TXN_EXPECT_OK(value_pages_stats(values, &now));
    return now;
  }
  u32 values_seq(u64 row_id) {
    alignas(8) u8 copy[kPageSize];
    RowParts parts;
    u32 bytes;
    TXN_EXPECT_OK(copy_row(a.worker(), values, row_id, copy, &parts, &bytes));
    return parts.header.seq;
  }
  // The horizon passes all that has ended, and the cleaner comes.
  void clean() {
    host.publish_horizon();
    u64 removed;
    do {
      TXN_ASSERT_OK(clean_round(engine.own(), &removed, {}));
    } while (removed > 0);
  }
};

}  // namespace ls::txn_test
