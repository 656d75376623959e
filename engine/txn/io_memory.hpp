// io_memory.hpp - a worker's memory for reading and writing values, while it is needed.
#pragma once
#include "txn/worker.hpp"
#include "vlog/value_file.hpp"

namespace ls {

class IoMemory {
 public:
  explicit IoMemory(Worker &w)
      : w_(w), bytes_(static_cast<u8 *>(w.scan_memory.take(kIoPages * kPageSize))) {}
  ~IoMemory() {
    if (bytes_) w_.scan_memory.give(bytes_, kIoPages * kPageSize);
  }
  IoMemory(const IoMemory &) = delete;
  IoMemory &operator=(const IoMemory &) = delete;

  Status status() const {
    return bytes_ ? kOk : fail(LS_NO_MEMORY, "no memory for the pages of a value");
  }
  u8 *bytes() const { return bytes_; }

 private:
  Worker &w_;
  u8 *bytes_;
};

}  // namespace ls
