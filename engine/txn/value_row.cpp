// value_row.cpp - the host's head of a value's row.
#include "txn/value_row.hpp"

#include <atomic>
#include <cstring>

namespace ls {

namespace {

std::atomic<ValueHead> g_head{nullptr};

}  // namespace

void set_value_head(ValueHead head) { g_head.store(head, std::memory_order_release); }

void put_value_head(u64 value_id, bool in_row, u32 bytes, u8 *head) {
  std::memset(head, 0, LS_VALUE_HEAD_BYTES);
  const ValueHead host = g_head.load(std::memory_order_acquire);
  if (host) host(value_id, in_row, bytes, head);
}

}  // namespace ls
