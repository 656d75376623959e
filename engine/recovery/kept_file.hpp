// kept_file.hpp - the file `row_blocks`, written and read in pieces: what is known of rows over a
// clean end (store/kept_blocks.hpp).
//
// Layout: KeptHeader | files of ClosedFile, with the numbers of the run that wrote it | cells of
// RowBlocks::Known.  It is not synced: a start takes all of it or, if the checksum is wrong,
// nothing.
#pragma once
#include <functional>
#include <vector>

#include "base/bytes.hpp"
#include "buffer/closed_file.hpp"
#include "os/file.hpp"
#include "txn/row_blocks.hpp"

namespace ls {

struct KeptHeader {
  u64 magic;
  u32 version;
  u32 crc;   // of what follows it, but that of the files and cells goes first
  StoreId store;
  u64 run;
  u64 files, cells;
};
static_assert(sizeof(KeptHeader) == 56 && sizeof(RowBlocks::Known) == 176);

// First its files, then its cells.
class KeptWriter {
 public:
  explicit KeptWriter(const char *path) : path_(path) {}
  Status open(const StoreId &store, u64 run);
  Status add(const ClosedFile &file);
  Status add(const RowBlocks::Known &cell);
  Status finish();

 private:
  Status add(Bytes bytes);
  Status write_piece();

  const char *path_;
  KeptHeader header_{};
  File file_;
  std::vector<u8> piece_;
  u64 at_ = 0;
  u32 crc_ = 0;
};

class KeptReader {
 public:
  // LS_NOT_FOUND: there is none, or none of this run, or it is damaged.
  Status open(const char *path, const StoreId &store, u64 run);
  // Those that a store can have, and of cells the facts that are kept.
  Status each_file(const std::function<Status(const ClosedFile &)> &each);
  Status each_cell(const std::function<Status(const RowBlocks::Known &)> &each);

 private:
  using Piece = std::function<Status(Bytes)>;
  Status each_piece(u64 from, u64 to, size_t multiple, const Piece &each);

  File file_;
  KeptHeader header_{};
};

}  // namespace ls
