// failure.cpp - the first failure is kept; its text is readable once it is whole.
#include "base/failure.hpp"

#include <cstring>

namespace ls {

namespace {

constexpr u32 kBeingWritten = 1, kReadable = 2;

}  // namespace

void Failure::note(Status status) {
  u32 expected = 0;
  if (!state_.compare_exchange_strong(expected, kBeingWritten, std::memory_order_relaxed)) return;
  error_ = last_error();
  error_.status = code(status);
  state_.store(kReadable, std::memory_order_release);  // pairs with noted()
}

bool Failure::noted(ls_error *error) const {
  const u32 state = state_.load(std::memory_order_acquire);
  if (state == 0) return false;
  if (!error) return true;
  if (state == kReadable) {
    *error = error_;
  } else {
    *error = {};
    error->status = LS_IO_ERROR;
    error->page_no = UINT32_MAX;
    std::strcpy(error->message, "a part of the storage engine has failed");
  }
  return true;
}

}  // namespace ls
