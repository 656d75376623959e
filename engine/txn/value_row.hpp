// value_row.hpp - the rows of values: which one, and what it says.
#pragma once
#include "vlog/value_place.hpp"

namespace ls {

inline constexpr bool is_in_row(u32 value_bytes) { return value_bytes <= LS_VALUE_IN_ROW_BYTES; }

inline constexpr u64 value_row_id(u64 value_id, u32 value_bytes) {
  return value_id * LS_ROWS_PER_VALUE + (is_in_row(value_bytes) ? 0 : 1);
}
inline constexpr bool names_pages(u64 row_id) { return row_id % LS_ROWS_PER_VALUE == 1; }

// The place behind the host's head.
inline bool load_value_row(Bytes payload, ValuePlace *place) {
  return payload.size() > LS_VALUE_HEAD_BYTES &&
         load_place(payload.subspan(LS_VALUE_HEAD_BYTES), place);
}

// What the host puts before the bytes of a value, or of a place (ls_set_value_head).
using ValueHead = void (*)(u64 value_id, bool in_row, u32 bytes, u8 *head);
void set_value_head(ValueHead head);
void put_value_head(u64 value_id, bool in_row, u32 bytes, u8 *head);

}  // namespace ls
