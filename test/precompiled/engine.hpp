// engine.hpp - what the compiler reads of the standard library for nearly each file of the engine:
// once, where the engine is built for sanitizers (Makefile).  No file relies on it: the builds of
// the server, and .ci/check_headers, do without.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
