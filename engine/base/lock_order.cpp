// lock_order.cpp - the ranks that a thread holds.
#include "base/lock_order.hpp"

#include "base/check.hpp"

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS && !defined(__SANITIZE_THREAD__)

namespace ls {

namespace {

constexpr u8 kRanks = static_cast<u8>(LockRank::kAlone) + 1;

thread_local u32 tls_held[kRanks] = {};

void expect_none_from(u8 rank) {
  for (u8 held = rank; held < kRanks; held++)
    LS_CHECK(tls_held[held] == 0, "a lock is waited for against the order of ranks");
}

}  // namespace

void lock_wanted(LockRank rank) {
  expect_none_from(rank == LockRank::kAlone ? 0 : static_cast<u8>(rank));
}

// Those of trees are taken in an order of their own.
void page_latch_wanted() { expect_none_from(static_cast<u8>(LockRank::kIoStage)); }

void lock_taken(LockRank rank) { tls_held[static_cast<u8>(rank)]++; }

void lock_left(LockRank rank) {
  u32 &held = tls_held[static_cast<u8>(rank)];
  LS_CHECK(held > 0, "a lock is given up by a thread that does not hold it");
  held--;
}

}  // namespace ls

#endif
