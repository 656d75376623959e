// thread.hpp - an engine thread: named, with every signal blocked, because the host's handlers
// belong to its main thread.
#pragma once
#include <pthread.h>

#include <functional>

#include "base/status.hpp"

namespace ls {

class Thread {
 public:
  Thread() = default;
  ~Thread();  // joins
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;
  // `name` is cut to 15 characters (the kernel's limit).
  Status start(const char *name, std::function<void()> body);
  bool running() const { return started_; }
  void join();  // no-op when not started

 private:
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace ls
