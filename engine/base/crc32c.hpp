// crc32c.hpp - the checksum of pages, log rounds and the control file: CRC-32C (Castagnoli,
// polynomial 0x1EDC6F41).
//
// crc32c(0, data, n) is the standard value (of "123456789": 0xE3069283).  Parts may be chained:
// crc32c(crc32c(0, a), b) == crc32c(0, a|b).  The CPU's instruction where there is one, a table
// otherwise; both give the same, so files move between machines.
#pragma once
#include "base/types.hpp"

namespace ls {

u32 crc32c(u32 seed, const void *data, size_t bytes);

// The table variant, for tests and machines without the instruction.
u32 crc32c_portable(u32 seed, const void *data, size_t bytes);

}  // namespace ls
