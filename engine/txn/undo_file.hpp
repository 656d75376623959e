// undo_file.hpp - what undoes a transaction, in a file of its own that outlives the log: undo/<tn>,
// prepared/<full xid>.
//
//   file   pieces, one behind the other
//   piece  UndoPieceHead, then items to its end
//   item   bytes of what follows the kind | kind, 1 | what it says; numbers as in wal/log_bytes.hpp
//
// UFILE-1  Only appended to.  A reader that relies on a file knows its UndoEnd from somewhere
//          durable: what lies behind it was never needed, and what lies before it and does not
//          verify is damage.
// UFILE-2  A piece says its owner, where it stands and where the one before it begins: so a file is
//          read backwards, piece by piece, and the memory for that is that of one.
#pragma once
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/status.hpp"
#include "btree/node.hpp"

namespace ls {

inline constexpr u32 kUndoMagic = 0x4f444e55;  // "UNDO"
inline constexpr u32 kUndoVersion = 2;
// More is not read as one piece, whatever its head says.
inline constexpr u32 kMaxUndoPieceBytes = 32 << 20;

struct UndoPieceHead {
  u32 magic;
  u32 version;
  u32 crc;        // crc32c of head, with this field zero, and items
  u32 bytes;      // of the items
  u64 owner;      // tn, or full xid
  u64 at;         // of this head in the file
  u64 previous;   // of the head before; the first one's own place: there is none
};
static_assert(sizeof(UndoPieceHead) == 40);

// Of a file: how long it is, and where its last piece begins.
struct UndoEnd {
  u64 bytes = 0;
  u64 last = 0;
};

// Items that become a piece.
class UndoItems {
 public:
  void add(u8 kind, Bytes head, Bytes rest = {});
  const std::vector<u8> &bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::vector<u8> bytes_;
};

struct UndoItem {
  u8 kind = 0;
  Bytes bytes;
};
// Takes the next item off the front.  False: the bytes are no items.
bool undo_take(Bytes *items, UndoItem *item);

class UndoFile {
 public:
  UndoFile(std::string path, u64 owner, UndoEnd end = {});
  // What a file is of which these items are the only piece.
  static std::vector<u8> image(u64 owner, Bytes items);
  // A piece behind the end.  Durable after sync(), once the directory is.
  Status append(Bytes items);
  Status sync();
  const UndoEnd &end() const { return end_; }
  const std::string &path() const { return path_; }

  // The items of the piece at `at`; *previous: where the one before begins, or `at`.
  Status read(u64 at, std::vector<u8> *items, u64 *previous, u64 *next = nullptr) const;
  Status damaged() const;

  // Item by item from the last to the first, and from the first to the last.  Each: Status(const
  // UndoItem &).
  template <class Each>
  Status backward(Each &&each) const;
  // (the second way also finds out where the last piece begins).
  template <class Each>
  Status forward(Each &&each);

 private:
  std::string path_;
  u64 owner_;
  UndoEnd end_;
  bool appended_ = false;
};

// The items of a piece, each handed to `each`, the last one first.
template <class Each>
Status undo_backward(const UndoFile &file, Bytes items, Each &&each) {
  std::vector<UndoItem> all;
  for (UndoItem item; !items.empty(); all.push_back(item)) {
    if (!undo_take(&items, &item)) return file.damaged();
  }
  for (size_t i = all.size(); i-- > 0;) LS_TRY(each(all[i]));
  return kOk;
}

template <class Each>
Status UndoFile::backward(Each &&each) const {
  std::vector<u8> items;
  for (u64 at = end_.last, previous = at; end_.bytes > 0; at = previous) {
    LS_TRY(read(at, &items, &previous));
    LS_ASSERT(at == 0 || previous < at);  // UFILE-2
    LS_TRY(undo_backward(*this, items, each));
    if (at == 0) break;
  }
  return kOk;
}

template <class Each>
Status UndoFile::forward(Each &&each) {
  std::vector<u8> items;
  for (u64 at = 0, previous; at < end_.bytes;) {
    end_.last = at;
    LS_TRY(read(at, &items, &previous, &at));
    LS_ASSERT(at > end_.last && at <= end_.bytes);  // UFILE-1
    UndoItem item;
    for (Bytes left = items; !left.empty();) {
      if (!undo_take(&left, &item)) return damaged();
      LS_TRY(each(item));
    }
  }
  return kOk;
}

std::string undo_file_name(u64 owner);

}  // namespace ls
