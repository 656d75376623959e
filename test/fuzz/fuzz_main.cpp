// fuzz_main.cpp - the start of each fuzzer: seeds, its directory, the engine's settings.
// LS_FUZZ_SEEDS=directory: writes the seeds there and ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz/fuzz.hpp"
#include "os/file.hpp"
#include "recovery/redo_page.hpp"

namespace ls::fuzz {

namespace {

std::string scratch;
pid_t owner;

// libFuzzer may fork: a child does not remove what is not its own.
void remove_scratch() {
  std::error_code ignored;
  if (getpid() == owner) std::filesystem::remove_all(scratch, ignored);
}

void make_scratch() {
  const char *parent = std::getenv("TMPDIR");
  if (parent == nullptr) parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string name = parent + std::string("/ls_fuzz.XXXXXX");
  FUZZ_CHECK(mkdtemp(name.data()) != nullptr);
  scratch = name;
  owner = getpid();
  std::atexit(remove_scratch);
}

}  // namespace

const std::string &directory() { return scratch; }

void put_file(const std::string &path, Bytes bytes) {
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  FUZZ_CHECK(fd >= 0);
  FUZZ_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

Buffer get_file(const std::string &path) {
  Buffer bytes(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

}  // namespace ls::fuzz

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  using namespace ls;
  fuzz::make_scratch();
  file_setup(fuzz::directory().c_str(), false, false, 64);
  register_tree_ops(redo_tree_ops());
  const char *to = std::getenv("LS_FUZZ_SEEDS");
  if (to == nullptr) return 0;
  fuzz::write_seeds([to](const char *name, Bytes seed) {
    fuzz::put_file(std::string(to) + "/" + name, seed);
  });
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  ls::fuzz::Input input(data, bytes);
  ls::fuzz::test_one(input);
  return 0;
}
