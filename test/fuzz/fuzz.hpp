// fuzz.hpp - what the fuzzers have in common.  Each *_fuzz.cpp is a program of its own, made with
// fuzz_main.cpp: test_one(), which gives an input to a decoder of the engine, and write_seeds(),
// which makes the inputs it begins with by the engine's own encoders.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/status.hpp"
#include "base/types.hpp"

namespace ls::fuzz {

using Buffer = std::vector<u8>;

class Input;

// Each fuzzer's own.
void test_one(Input &input);
using SeedWriter = std::function<void(const char *name, Bytes seed)>;
void write_seeds(const SeedWriter &write);

// A directory of this process, in memory if the machine has such a place.
const std::string &directory();
// A file there, anew.
void put_file(const std::string &path, Bytes bytes);
Buffer get_file(const std::string &path);

// A finding.
#define FUZZ_CHECK(expr)                                                       \
  do {                                                                         \
    if (!(expr)) {                                                             \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expr);  \
      std::abort();                                                            \
    }                                                                          \
  } while (0)

// A decoder that fails says why.
inline void expect_refusal_or(Status status) {
  FUZZ_CHECK(ok(status) || last_error().message[0] != '\0');
}

// Takes an input apart; behind its end come zeros.
class Input {
 public:
  Input(const u8 *data, size_t bytes) : left_(data, bytes) {}
  bool empty() const { return left_.empty(); }
  size_t bytes() const { return left_.size(); }
  u8 byte() { return number<u8>(); }
  template <typename T>
  T number() {
    T value{};
    const Bytes from = take(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  // So many, or what there is.
  Bytes take(size_t bytes) {
    const Bytes taken = left_.first(bytes < left_.size() ? bytes : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }
  Bytes rest() { return take(left_.size()); }

 private:
  Bytes left_;
};

// Puts one together.
class Output {
 public:
  template <typename T>
  Output &number(T value) {
    return bytes({reinterpret_cast<const u8 *>(&value), sizeof value});
  }
  Output &bytes(Bytes more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  operator Bytes() const { return bytes_; }
  Buffer &buffer() { return bytes_; }

 private:
  Buffer bytes_;
};

using ls::bytes_of;
inline Bytes bytes_of(const std::string &s) {
  return {reinterpret_cast<const u8 *>(s.data()), s.size()};
}

}  // namespace ls::fuzz
