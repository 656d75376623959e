// closed_files.cpp - the tree of closed files: by key and by number, one entry each; and of sealed
// ones, by key and by transaction.
#include "btree/closed_files.hpp"

#include <algorithm>
#include <cstddef>

#include "base/check.hpp"
#include "btree/entries.hpp"

namespace ls {

namespace {

constexpr u32 kNumberKeyBytes = 1 + 8, kNameKeyBytes = 1 + 16, kSealKeyBytes = 1 + 8 + 16;
constexpr u8 kGoesAtCommit = 1, kGoesAtRollback = 2;   // a file that was made and dropped: both
constexpr u32 kHeadBytes = offsetof(ClosedFile, path);

struct NumberKey {
  u8 bytes[kNumberKeyBytes] = {'n'};
  explicit NumberKey(FileNo number) {
    const u64 be = __builtin_bswap64(number);
    std::memcpy(bytes + 1, &be, sizeof be);
  }
  operator Bytes() const { return Bytes(bytes, sizeof bytes); }
};

struct NameKey {
  u8 bytes[kNameKeyBytes] = {'k'};
  NameKey(u32 database, u32 tablespace, u32 relation, u32 owner) {
    const u32 words[] = {__builtin_bswap32(database), __builtin_bswap32(tablespace),
                         __builtin_bswap32(relation), __builtin_bswap32(owner)};
    static_assert(sizeof words + 1 == sizeof bytes);
    std::memcpy(bytes + 1, words, sizeof words);
  }
  explicit NameKey(const ls_rel_key &key)
      : NameKey(key.database, key.tablespace, key.relation, static_cast<u32>(key.owner)) {}
  explicit NameKey(const FileRecord &r)
      : NameKey(r.database, r.tablespace, r.relation, static_cast<u32>(r.owner)) {}
  operator Bytes() const { return Bytes(bytes, sizeof bytes); }
};

struct SealedKey {
  NameKey key;
  explicit SealedKey(const ls_rel_key &of) : key(of) { key.bytes[0] = 's'; }
  operator Bytes() const { return key; }
};

struct SealKey {
  u8 bytes[kSealKeyBytes] = {'t'};
  SealKey(Tn tn, const ls_rel_key &key) {
    const u64 be = __builtin_bswap64(tn);
    std::memcpy(bytes + 1, &be, sizeof be);
    std::memcpy(bytes + 1 + sizeof be, NameKey(key).bytes + 1, kNameKeyBytes - 1);
  }
  operator Bytes() const { return Bytes(bytes, sizeof bytes); }
};

// The last bytes of a NameKey, or of a SealKey.
ls_rel_key key_of(const u8 *bytes) {
  u32 words[4];
  std::memcpy(words, bytes, sizeof words);
  return {.tablespace = __builtin_bswap32(words[1]),
          .database = __builtin_bswap32(words[0]),
          .relation = __builtin_bswap32(words[2]),
          .owner = static_cast<i32>(__builtin_bswap32(words[3]))};
}

BTree tree_of(Ctx &ctx) {
  const u32 place = ctx.pool->shared()->closed_tree.load(std::memory_order_acquire);
  LS_CHECK(place != 0, "there is no tree of closed files");
  FileSlot &file = ctx.pool->file(place - 1);
  LS_ASSERT(!file.logged);
  return BTree(ctx, file);
}

Status fail_damaged() { return fail(LS_CORRUPT, "the name of a closed relation file is damaged"); }

Status number_at(Ctx &ctx, Bytes key, u64 *number) {
  alignas(8) u8 out[sizeof *number];
  u32 bytes = 0;
  LS_TRY(tree_of(ctx).lookup(key, out, sizeof out, &bytes));
  if (bytes != sizeof *number) return fail_damaged();
  std::memcpy(number, out, sizeof *number);
  return kOk;
}

Status number_of(Ctx &ctx, const ls_rel_key &key, FileNo *number) {
  return number_at(ctx, NameKey(key), number);
}

Status load(Bytes value, ClosedFile *file) {
  *file = {};
  if (value.size() < kHeadBytes || value.size() >= sizeof *file) return fail_damaged();
  std::memcpy(static_cast<void *>(file), value.data(), value.size());
  return file->record.path_bytes == value.size() - kHeadBytes ? kOk : fail_damaged();
}

Status by_number(Ctx &ctx, FileNo number, ClosedFile *file) {
  u8 out[sizeof *file];
  u32 bytes = 0;
  LS_TRY(tree_of(ctx).lookup(NumberKey(number), out, sizeof out, &bytes));
  LS_TRY(load(Bytes(out, std::min<size_t>(bytes, sizeof out)), file));
  return file->record.file == number ? kOk : fail_damaged();
}

Status by_key(Ctx &ctx, const ls_rel_key &key, ClosedFile *file) {
  FileNo number;
  LS_TRY(number_of(ctx, key, &number));
  return by_number(ctx, number, file);
}

Status put(Ctx &ctx, const ClosedFile &file) {
  LS_ASSERT(file.record.path_bytes < sizeof file.path);
  const Bytes value(reinterpret_cast<const u8 *>(&file), kHeadBytes + file.record.path_bytes);
  BTree tree = tree_of(ctx);
  LS_TRY(put_entry(tree, NumberKey(file.record.file), value));
  const Bytes number(reinterpret_cast<const u8 *>(&file.record.file), sizeof(FileNo));
  LS_TRY(put_entry(tree, NameKey(file.record), number));
  ctx.pool->shared()->closed_names.fetch_add(1, std::memory_order_seq_cst);
  return kOk;
}

// The number first: when this is repeated after a failure the key still leads to it.
Status remove(Ctx &ctx, const ls_rel_key &key) {
  FileNo number;
  const Status status = number_of(ctx, key, &number);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  BTree tree = tree_of(ctx);
  LS_TRY(remove_entry(tree, NumberKey(number)));
  return remove_entry(tree, NameKey(key));
}

// Entries from `first` on, as long as each(key, value) says so.  No latch is held meanwhile.
template <class Each>
Status scan(Ctx &ctx, Bytes first, const Each &each) {
  BTree tree = tree_of(ctx);
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  u32 from_bytes = static_cast<u32>(first.size());
  std::memcpy(from, first.data(), from_bytes);
  for (bool more = true; more;) {
    LS_TRY(tree.leaf_copy(Bytes(from, from_bytes), leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    bool found;
    for (u16 pos = node->lower_bound(Bytes(from, from_bytes), &found); pos < node->count; pos++) {
      u8 key[kMaxKeyBytes];
      const u32 bytes = node->copy_key(pos, key);
      if (!each(Bytes(key, bytes), node->value(pos))) return kOk;
    }
    more = node->has_upper;
    const Bytes upper = node->upper_fence();
    from_bytes = static_cast<u32>(upper.size());
    std::memcpy(from, upper.data(), from_bytes);
  }
  return kOk;
}

Status keys_of(Ctx &ctx, u32 database, std::vector<ls_rel_key> *keys) {
  const NameKey first(database, 0, 0, 0);
  return scan(ctx, first, [&](Bytes key, Bytes) {
    if (key.size() != kNameKeyBytes || std::memcmp(key.data(), first.bytes, 5) != 0) return false;
    keys->push_back(key_of(key.data() + 1));
    return true;
  });
}

Status all(Ctx &ctx, std::vector<ClosedFile> *files) {
  const NumberKey first(0);
  Status status = kOk;
  LS_TRY(scan(ctx, first, [&](Bytes key, Bytes value) {
    if (key.size() != kNumberKeyBytes || key[0] != first.bytes[0]) return false;
    status = load(value, &files->emplace_back());
    return ok(status);
  }));
  return status;
}

Status seal(Ctx &ctx, Tn tn, const ls_ending_file &file) {
  BTree tree = tree_of(ctx);
  u8 ends = 0;
  u32 bytes = 0;
  const Status status = tree.lookup(SealKey(tn, file.key), &ends, sizeof ends, &bytes);
  if (!ok(status) && code(status) != LS_NOT_FOUND) return status;
  ends |= file.at_commit ? kGoesAtCommit : kGoesAtRollback;
  LS_TRY(put_entry(tree, SealKey(tn, file.key), Bytes(&ends, sizeof ends)));
  return put_entry(tree, SealedKey(file.key), Bytes(reinterpret_cast<const u8 *>(&tn), sizeof tn));
}

Status sealed_by(Ctx &ctx, const ls_rel_key &key, Tn *tn) {
  return number_at(ctx, SealedKey(key), tn);
}

Status sealed_of(Ctx &ctx, Tn tn, std::vector<ls_ending_file> *files) {
  const SealKey first(tn, {0, 0, 0, 0});
  files->clear();
  return scan(ctx, first, [&](Bytes key, Bytes value) {
    const bool of_it = key.size() == kSealKeyBytes && std::memcmp(key.data(), first.bytes, 9) == 0;
    if (!of_it) return false;
    const ls_rel_key file = key_of(key.data() + 9);
    const u8 ends = value.empty() ? 0 : value[0];
    if (ends & kGoesAtCommit) files->push_back({file, true});
    if (ends & kGoesAtRollback) files->push_back({file, false});
    return true;
  });
}

// By transaction last: when this is repeated after a failure it still leads here.
Status unseal(Ctx &ctx, Tn tn, const ls_rel_key &key) {
  BTree tree = tree_of(ctx);
  Tn by = 0;
  const Status status = sealed_by(ctx, key, &by);
  if (!ok(status) && code(status) != LS_NOT_FOUND) return status;
  if (ok(status) && by == tn) LS_TRY(remove_entry(tree, SealedKey(key)));
  return remove_entry(tree, SealKey(tn, key));
}

}  // namespace

const ClosedFileOps &closed_file_ops() {
  static constexpr ClosedFileOps kOps{by_key, by_number, put,       remove,    keys_of,
                                      all,    seal,      sealed_by, sealed_of, unseal};
  return kOps;
}

}  // namespace ls
