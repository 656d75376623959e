// file.hpp - little-endian words, and a file that closes itself: what readers of traces share.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "base/types.hpp"

namespace ls::values {

struct Close {
  void operator()(FILE *file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

template <typename T>
T get(const u8 *from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); i++)
    value |= static_cast<T>(T{from[i]} << (8 * i));
  return value;
}

template <typename T>
void put(u8 *to, T value) {
  for (size_t i = 0; i < sizeof(T); i++)
    to[i] = static_cast<u8>(value >> (8 * i));
}

inline bool fail(std::string *why, const std::string &path, const std::string &what) {
  *why = path + ": " + what;
  return false;
}

}  // namespace ls::values
