// kept_file.cpp - pieces, checksums, and what of a file's contents can be so.
#include "recovery/kept_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"

namespace ls {

namespace {

constexpr u64 kKeptMagic = 0x53574f5253424c4bull;
constexpr u32 kKeptVersion = 1;
constexpr size_t kPieceBytes = 256 << 10;

using Known = RowBlocks::Known;

// body: the checksum of the files and cells.  The header's bytes come last, for the writer knows
// only then how many cells there are.
u32 checksum(u32 body, const KeptHeader &header) {
  constexpr u32 kFrom = offsetof(KeptHeader, crc) + sizeof(KeptHeader::crc);
  return crc32c(body, reinterpret_cast<const u8 *>(&header) + kFrom, sizeof header - kFrom);
}

// One of a session is gone by then.
bool is_possible(const ClosedFile &file) {
  return file.record.owner < 0 && file.record.file != 0 && file.record.tablespace != 0 &&
         (has_rows(file.record.kind) || file.record.kind == LS_REL_INDEX) &&
         file.record.path_bytes < sizeof file.path;
}

bool is_possible(const Known &cell) {
  const auto fits = [](u16 rows) { return rows <= 1u << kRowsPerBlockShift; };
  return cell.file_no != 0 && std::all_of(std::begin(cell.rows), std::end(cell.rows), fits);
}

template <typename T>
Status each_of(Bytes piece, const std::function<Status(const T &)> &each) {
  for (; !piece.empty(); piece = piece.subspan(sizeof(T))) {
    T value;
    std::memcpy(static_cast<void *>(&value), piece.data(), sizeof value);
    if (is_possible(value)) LS_TRY(each(value));
  }
  return kOk;
}

}  // namespace

Status KeptWriter::open(const StoreId &store, u64 run) {
  header_ = {.magic = kKeptMagic, .version = kKeptVersion, .crc = 0, .store = store, .run = run,
             .files = 0, .cells = 0};
  LS_TRY(file_.open(path_, O_CREAT | O_TRUNC));
  piece_.reserve(kPieceBytes);
  at_ = sizeof header_;
  return kOk;
}

Status KeptWriter::add(const ClosedFile &file) {
  header_.files++;
  return add(bytes_of(file));
}

Status KeptWriter::add(const Known &cell) {
  header_.cells++;
  return add(bytes_of(cell));
}

Status KeptWriter::add(Bytes bytes) {
  if (piece_.size() + bytes.size() > kPieceBytes) LS_TRY(write_piece());
  piece_.insert(piece_.end(), bytes.begin(), bytes.end());
  return kOk;
}

Status KeptWriter::write_piece() {
  crc_ = crc32c(crc_, piece_.data(), piece_.size());
  LS_TRY(file_.write_at(at_, piece_.data(), piece_.size()));
  at_ += piece_.size();
  piece_.clear();
  return kOk;
}

Status KeptWriter::finish() {
  LS_TRY(write_piece());
  header_.crc = checksum(crc_, header_);
  return file_.write_at(0, &header_, sizeof header_);
}

Status KeptReader::open(const char *path, const StoreId &store, u64 run) {
  LS_TRY(file_.open(path, 0));
  u64 bytes;
  LS_TRY(file_.size(&bytes));
  size_t got;
  LS_TRY(file_.read_at(0, &header_, sizeof header_, &got));
  const bool fits = got == sizeof header_ && header_.magic == kKeptMagic &&
                    header_.version == kKeptVersion && header_.store == store &&
                    header_.run == run;   // KEPT-1
  if (!fits || header_.files > bytes / sizeof(ClosedFile) ||
      header_.cells > bytes / sizeof(Known) ||
      bytes != sizeof header_ + header_.files * sizeof(ClosedFile) + header_.cells * sizeof(Known))
    return make_status(LS_NOT_FOUND);
  u32 crc = 0;
  LS_TRY(each_piece(sizeof header_, bytes, 1, [&](Bytes piece) {
    crc = crc32c(crc, piece.data(), piece.size());
    return kOk;
  }));
  return checksum(crc, header_) == header_.crc ? kOk : make_status(LS_NOT_FOUND);
}

Status KeptReader::each_file(const std::function<Status(const ClosedFile &)> &each) {
  return each_piece(sizeof header_, sizeof header_ + header_.files * sizeof(ClosedFile),
                    sizeof(ClosedFile), [&](Bytes piece) { return each_of(piece, each); });
}

Status KeptReader::each_cell(const std::function<Status(const Known &)> &each) {
  const std::function<Status(const Known &)> kept = [&](Known cell) {
    for (u64 &facts : cell.facts) facts &= RowBlocks::kKept;
    return each(cell);
  };
  const u64 from = sizeof header_ + header_.files * sizeof(ClosedFile);
  return each_piece(from, from + header_.cells * sizeof(Known), sizeof(Known),
                    [&](Bytes piece) { return each_of(piece, kept); });
}

// Pieces have a multiple of so many bytes.
Status KeptReader::each_piece(u64 from, u64 to, size_t multiple, const Piece &each) {
  std::vector<u8> piece(kPieceBytes / multiple * multiple);
  while (from < to) {
    size_t got;
    const size_t wanted = static_cast<size_t>(std::min<u64>(piece.size(), to - from));
    LS_TRY(file_.read_at(from, piece.data(), wanted, &got));
    if (got != wanted) return make_status(LS_NOT_FOUND);
    LS_TRY(each(Bytes(piece).first(got)));
    from += got;
  }
  return kOk;
}

}  // namespace ls
