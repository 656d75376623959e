// inserts.cpp - filling an empty store.
#include "crew.hpp"
#include "workload.hpp"

namespace ls::bench {

double measure_inserts(Store &store, const KeySet &keys, const std::vector<u32> &order,
                       u32 threads) {
  const u64 n = order.size();
  const u64 us =
      run_crew(threads, 0, [&](u32 thread, const std::atomic<bool> &, const auto &begin) {
        std::unique_ptr<Session> session = store.session(thread);
        u8 buffer[8];
        Value value{};
        begin();
        for (u64 i = n * thread / threads, end = n * (thread + 1) / threads; i < end; i++) {
          __builtin_memcpy(value.bytes, &i, sizeof i);
          session->insert(keys.key(order[i], buffer), value);
        }
      });
  return static_cast<double>(n) / static_cast<double>(us);
}

}  // namespace ls::bench
