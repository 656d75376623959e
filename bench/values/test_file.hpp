// test_file.hpp - a file of a test, gone afterwards.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ls::values {

class TestFile {
 public:
  TestFile() { close(mkstemp(path_)); }
  ~TestFile() { unlink(path_); }
  TestFile(const TestFile &) = delete;
  TestFile &operator=(const TestFile &) = delete;
  const char *path() const { return path_; }
  std::string bytes() const {
    std::string all;
    FILE *file = fopen(path_, "rb");
    for (int c; (c = fgetc(file)) != EOF;)
      all.push_back(static_cast<char>(c));
    fclose(file);
    return all;
  }
  void set(const std::string &bytes) const {
    FILE *file = fopen(path_, "wb");
    fwrite(bytes.data(), 1, bytes.size(), file);
    fclose(file);
  }

 private:
  char path_[32] = "/tmp/value_log_test_XXXXXX";
};

}  // namespace ls::values
