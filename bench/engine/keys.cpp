// keys.cpp - integers and URLs as keys, the order of their insertion, Zipf's distribution.
#include "keys.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "os/huge_page.hpp"

namespace ls::bench {

namespace {

// Room for n elements in huge pages where they can be had: what is measured are the stores' misses,
// not those of the list of keys.
template <typename T>
void reserve_huge(std::vector<T> &list, u64 n) {
  list.reserve(n);
  const u64 begin = reinterpret_cast<u64>(list.data()), end = begin + n * sizeof(T);
  const u64 first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  if (first < end) madvise(reinterpret_cast<void *>(first), end - first, MADV_HUGEPAGE);
}

}  // namespace

KeySet KeySet::integers(u64 count, u64 most) { return KeySet(count, most); }

KeySet KeySet::urls(u64 count, u64 most) {
  static const char *const kHosts[] = {"archive", "blog",    "books",   "cinema", "data",   "forum",
                                       "garden",  "journal", "library", "maps",   "museum", "music",
                                       "news",    "photos",  "shop",    "travel"};
  static const char *const kFolders[] = {"about",    "articles", "catalogue", "comments",
                                         "editions", "gallery",  "items",     "pages"};
  static const char *const kWords[] = {
      "autumn", "bridge",   "castle",  "desert", "forest", "harbour", "island", "lantern",
      "meadow", "mountain", "orchard", "river",  "summer", "valley",  "winter", "yellow"};
  std::vector<std::string> all(most);
  u64 random = 88172645463325252;
  auto pick = [&](const auto &list) { return list[next_random(random) % std::size(list)]; };
  for (u64 i = 0; i < most; i++) {
    char text[kMaxKeyBytes];
    // The number makes it unique; few hosts have many pages.
    const u32 host = next_random(random) % (1 + next_random(random) % 2000);
    std::snprintf(text, sizeof text, "https://www.%s%u.example.com/%s/%s-%s/%08llx.html",
                  kHosts[host % std::size(kHosts)], host, pick(kFolders), pick(kWords),
                  pick(kWords),
                  static_cast<unsigned long long>(scramble(i, ~0ull) << 32 | i) & 0xffffffffffull);
    all[i] = text;
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  KeySet keys(std::min<u64>(count, all.size()), all.size());
  u64 bytes = 0;
  for (const std::string &text : all) bytes += text.size();
  reserve_huge(keys.bytes_, bytes);
  reserve_huge(keys.offsets_, all.size() + 1);
  for (const std::string &text : all) {
    keys.offsets_.push_back(keys.bytes_.size());
    keys.bytes_.insert(keys.bytes_.end(), text.begin(), text.end());
  }
  keys.offsets_.push_back(keys.bytes_.size());
  return keys;
}

std::vector<u32> insertion_order(u64 count, bool random) {
  std::vector<u32> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (random) std::shuffle(order.begin(), order.end(), std::mt19937(42));
  return order;
}

namespace {
constexpr double kTheta = 0.99;
}

Zipf::Zipf(u64 items) : items_(items) {
  zeta_ = 0;
  for (u64 i = 1; i <= items; i++) zeta_ += 1 / std::pow(static_cast<double>(i), kTheta);
  alpha_ = 1 / (1 - kTheta);
  eta_ = (1 - std::pow(2.0 / static_cast<double>(items), 1 - kTheta)) /
         (1 - (1 + std::pow(0.5, kTheta)) / zeta_);
}

u64 Zipf::draw(u64 &random) const {
  const double u = next_random(random) / 4294967296.0, uz = u * zeta_;
  if (uz < 1) return 0;
  if (uz < 1 + std::pow(0.5, kTheta)) return 1;
  const double rank = static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, alpha_);
  return std::min(items_ - 1, static_cast<u64>(rank));
}

}  // namespace ls::bench
