// child_process.hpp - run a part of a test in a process that dies.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

namespace ls::test {

[[noreturn]] inline void die_at_once() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// True when the body came to its end without a failed expectation; it then dies by SIGKILL, like
// everything it started.
inline bool in_child(const std::function<void()> &body) {
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    body();
    if (::testing::Test::HasFailure()) {
      fflush(nullptr);
      _exit(3);
    }
    die_at_once();
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace ls::test
