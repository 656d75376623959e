// log_bounds.hpp - no store counts as far: what is read and lies beyond is damage, and what comes
// after it has room.
#pragma once
#include "base/types.hpp"

namespace ls {

inline constexpr u64 kMaxPosition = u64{1} << 62;  // of GSNs and positions in the log
inline constexpr u64 kMaxRun = u64{1} << 31;
inline constexpr FileNo kMaxFileNo = FileNo{1} << 62;

}  // namespace ls
