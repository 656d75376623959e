// host_pump.hpp - the thread that pumps: the main thread of a host's engine process.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "unit/wal/memory_host.hpp"

namespace ls::test {

class HostPump {
 public:
  HostPump(ls_store *store, MemoryHost &host) {
    thread_ = std::thread([this, store, &host] {
      host.use();
      ls_error err{};
      while (!stop_) EXPECT_EQ(ls_host_log_pump(store, 1000, &err), LS_OK) << err.message;
      use_host_log(nullptr);
    });
  }
  ~HostPump() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ls::test
