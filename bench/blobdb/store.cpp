// store.cpp - what stores have in common, and what is there instead of one that is not.
#include "store.hpp"

#include <cstdio>
#include <unistd.h>

namespace ls::blobdb {

void give_up(const std::string &what) {
  fprintf(stderr, "values_client: %s\n", what.c_str());
  _exit(1);
}

#ifndef WITH_ROCKSDB
std::unique_ptr<Store> open_rocksdb(const StoreOptions &) { return nullptr; }
#endif

}  // namespace ls::blobdb
