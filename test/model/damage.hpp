// damage.hpp - bytes changed at random, most of them where lengths, offsets and counts are.
#pragma once
#include <cstring>
#include <random>
#include <span>

#include "btree/node.hpp"
#include "buffer/page.hpp"

namespace ls::test {

class Damage {
 public:
  explicit Damage(u64 seed) : random_(seed) {}

  std::mt19937_64 &random() { return random_; }
  u32 pick(u32 n) { return static_cast<u32>(random_() % n); }

  // One to three changes, now and then many.
  void bytes(std::span<u8> all) {
    for (u32 n = times(); n > 0; n--)
      change(all);
  }
  // A node, meta page or list of free pages: header and slots rather than what is behind them.
  void page(u8 *page) {
    for (u32 n = times(); n > 0; n--) {
      const u32 heap_end = reinterpret_cast<const Node *>(page)->heap_end();
      switch (pick(8)) {
        case 0: change({page, kPageSize}); break;
        case 1: change({page + heap_end, kPageSize - heap_end}); break;
        case 2:
        case 3: change({page + sizeof(Node), 8 * sizeof(Slot)}); break;
        case 4: change({page + sizeof(Node), kPageSize / 4}); break;
        default:
          change({page + offsetof(PageHeader, kind), sizeof(Node) - offsetof(PageHeader, kind)});
          break;
      }
    }
  }

 private:
  u32 times() { return pick(10) == 0 ? 1 + pick(40) : 1 + pick(3); }

  void change(std::span<u8> all) {
    if (all.empty()) return;
    u8 &byte = all[pick(static_cast<u32>(all.size()))];
    const bool two = &byte + 1 < all.data() + all.size();
    u16 word = 0;
    switch (pick(two ? 6 : 3)) {
      case 0: byte ^= static_cast<u8>(1u << pick(8)); return;
      case 1: byte = static_cast<u8>(random_()); return;
      case 2: byte = pick(2) ? u8{0} : u8{0xff}; return;
      case 3:  // a little more, or less
        std::memcpy(&word, &byte, sizeof word);
        word = static_cast<u16>(word + pick(33) - 16);
        break;
      case 4: word = static_cast<u16>(random_() % (kPageSize + 9)); break;
      default: word = pick(2) ? u16{kPageSize} : u16{0xffff}; break;
    }
    std::memcpy(&byte, &word, sizeof word);
  }

  std::mt19937_64 random_;
};

}  // namespace ls::test
