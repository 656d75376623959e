// tpcc_random.hpp - how TPC-C draws numbers, names and texts.
#pragma once
#include <cstring>

#include "base/random.hpp"
#include "crew.hpp"
#include "tpcc_schema.hpp"

namespace ls::bench::tpcc {

class Chance {
 public:
  explicit Chance(u64 seed) : state_(0x9e3779b97f4a7c15 * (seed + 1)) {}

  u32 between(u32 low, u32 high) {
    return low + static_cast<u32>(u64{next_random(state_)} * (high - low + 1) >> 32);
  }
  bool percent(u32 share) { return between(1, 100) <= share; }

  u32 customer() { return uneven(1023, 1, kCustomers, 259); }
  u32 item() { return uneven(8191, 1, kItems, 7911); }
  // The constants of the load and of the run lie as far apart as the standard wants it.
  u32 name_loaded() { return uneven(255, 0, 999, 157); }
  u32 name() { return uneven(255, 0, 999, 223); }

  // Letters and digits, the rest of the field zeros.
  template <size_t kLength>
  void text(char (&field)[kLength], u32 least, u32 most = kLength) {
    static constexpr char kLetters[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::memset(field, 0, kLength);
    for (u32 i = 0, length = between(least, most); i < length; i++)
      field[i] = kLetters[between(0, sizeof kLetters - 2)];
  }
  template <size_t kLength>
  void digits(char (&field)[kLength]) {
    for (char &digit : field) digit = static_cast<char>('0' + between(0, 9));
  }
  // A tenth of the items and stocks are original.
  void data(char (&field)[50]) {
    text(field, 26);
    if (percent(10)) std::memcpy(field + between(0, 18), "ORIGINAL", 8);
  }
  Address address() {
    Address a;
    text(a.street_1, 10);
    text(a.street_2, 10);
    text(a.city, 10);
    text(a.state, 2);
    digits(a.zip);
    std::memcpy(a.zip + 4, "11111", 5);
    return a;
  }

 private:
  u32 uneven(u32 spread, u32 low, u32 high, u32 constant) {
    return ((between(0, spread) | between(low, high)) + constant) % (high - low + 1) + low;
  }
  u64 state_;
};

inline void last_name(u32 number, char (&name)[16]) {
  static constexpr const char *kSyllables[] = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                               "ESE", "ANTI",  "CALLY", "ATION", "EING"};
  std::memset(name, 0, sizeof name);
  char *at = name;
  for (const u32 digit : {number / 100, number / 10 % 10, number % 10}) {
    const size_t length = std::strlen(kSyllables[digit]);
    std::memcpy(at, kSyllables[digit], length);   // three of at most five letters
    at += length;
  }
}

inline Time now() { return read_clock_us(CLOCK_REALTIME); }

}  // namespace ls::bench::tpcc
