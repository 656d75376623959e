// check.cpp - a broken invariant ends the process.
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace ls {

// One write(2)-sized line, so that lines of several processes do not mix; then abort(): the host
// sees a child killed by a signal, resets shared memory and recovers.
void check_failed(const char *file, int line, const char *expression, const char *why) {
  char text[512];
  std::snprintf(text, sizeof text, "leanstore: %s:%d: invariant broken: %s (%s)\n", file, line,
                expression, why);
  std::fputs(text, stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ls
