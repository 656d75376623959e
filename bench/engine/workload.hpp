// workload.hpp - what is measured.  inserts.cpp: filling an empty store; mixed.cpp: look-ups,
// changes and scans on a filled one; tpcc*.cpp: TPC-C.
#pragma once
#include <atomic>

#include "keys.hpp"

namespace ls::bench {

// A filled store with its own count of keys, which grows where a workload inserts.
struct Filled {
  Store *store;
  const KeySet *keys;
  std::atomic<u64> next_key;   // keys below are there, or being inserted at this moment
};

// Every key of `order` inserted by `threads`, each a run of it of its own.  Operations per
// microsecond (millions per second).
double measure_inserts(Store &store, const KeySet &keys, const std::vector<u32> &order,
                       u32 threads);

enum class Draw { kUniform, kZipf, kLatest };

struct Mix {
  const char *name;
  // in percent; a modification: look up, then update
  u32 lookups, updates, inserts, scans, modifications;
  Draw draw;
  u32 scan_length;                                       // at most; a scan's own is drawn
};

inline constexpr Mix kPointMixes[] = {
    {"random look-ups", 100, 0, 0, 0, 0, Draw::kUniform, 0},
    {"random updates", 0, 100, 0, 0, 0, Draw::kUniform, 0},
};
inline constexpr Mix kScanMixes[] = {
    {"scans of 100", 0, 0, 0, 100, 0, Draw::kUniform, 0},
};
inline constexpr Mix kYcsbMixes[] = {
    {"YCSB A", 50, 50, 0, 0, 0, Draw::kZipf, 0}, {"YCSB B", 95, 5, 0, 0, 0, Draw::kZipf, 0},
    {"YCSB C", 100, 0, 0, 0, 0, Draw::kZipf, 0}, {"YCSB D", 95, 0, 5, 0, 0, Draw::kLatest, 0},
    {"YCSB E", 0, 0, 5, 95, 0, Draw::kZipf, 100}, {"YCSB F", 50, 0, 0, 0, 50, Draw::kZipf, 0},
};
// Data four times the pool.
inline constexpr Mix kOutOfMemoryMixes[] = {
    {"four times the pool, look-ups", 100, 0, 0, 0, 0, Draw::kUniform, 0},
    {"four times the pool, 50/50", 50, 50, 0, 0, 0, Draw::kUniform, 0},
    // An update that has to know whether the key is there: some stores change one without reading a
    // page.
    {"four times the pool, 50/50, read first", 50, 0, 0, 0, 50, Draw::kUniform, 0},
};

// Millions of operations per second (a scan counts as one).  zipf: over the keys loaded.
double measure_mix(Filled &filled, const Mix &mix, const Zipf &zipf, u32 threads, u64 duration_us);
// Every key looked up once.
void warm(Filled &filled, u32 threads);

struct Tpcc {
  u32 warehouses;
  // a thread has its own share of the warehouses; otherwise each transaction draws one of all
  bool affinity;
};
struct TpccRate {
  double transactions;   // thousands per second, all five kinds
  double retries;        // for each transaction
};
void load_tpcc(Store &store, const Tpcc &tpcc, u32 threads);
// Every row visited once.
void warm_tpcc(Store &store);
TpccRate measure_tpcc(Store &store, const Tpcc &tpcc, u32 threads, u64 duration_us);
// Gives up unless the data is as transactions leave it (consistency conditions 1 to 10 of the
// standard).
void check_tpcc(Store &store, const Tpcc &tpcc, const char *name);

}  // namespace ls::bench
