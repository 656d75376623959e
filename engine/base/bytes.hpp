// bytes.hpp - an object's bytes, for what is written as it lies in memory.
#pragma once
#include <span>
#include <type_traits>

#include "base/types.hpp"

namespace ls {

using Bytes = std::span<const u8>;

template <typename T>
Bytes bytes_of(const T &value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const u8 *>(&value), sizeof value};
}

}  // namespace ls
