// tree_helpers.hpp - a tree used as a map, the way rows and index entries use it: change a leaf,
// log what was done.  The log operations are the tests' own (kOpRow family) with a redo beside
// them.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "btree/tree.hpp"

namespace ls::test {

using Model = std::map<std::string, std::string>;

inline Bytes as_bytes(const std::string &s) {
  return {reinterpret_cast<const u8 *>(s.data()), s.size()};
}
inline std::string as_string(Bytes b) {
  return {reinterpret_cast<const char *>(b.data()), b.size()};
}

inline std::string int_key(u64 value) {
  std::string key(8, '\0');
  for (size_t i = 8; i-- > 0; value >>= 8) key[i] = static_cast<char>(value);
  return key;
}
inline u64 key_int(Bytes key) {
  u64 value = 0;
  for (u8 byte : key) value = value << 8 | byte;
  return value;
}

// Says where they differ, not all they hold.
inline ::testing::AssertionResult same(const Model &a, const Model &b) {
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end() && *x == *y) ++x, ++y;
  if (x == a.end() && y == b.end()) return ::testing::AssertionSuccess();
  auto show = [](const Model &m, Model::const_iterator i) {
    return i == m.end() ? std::string("(end)")
                        : ::testing::PrintToString(i->first) + " with " +
                              std::to_string(i->second.size()) + " bytes";
  };
  return ::testing::AssertionFailure()
         << a.size() << " and " << b.size() << " entries, first difference: " << show(a, x)
         << " and " << show(b, y);
}

// Operands: u16 key bytes, key, value.
enum TestOp : u8 { kTestPut = kOpRow | 0xd, kTestRemove = kOpRow | 0xe };

inline bool put(Node *node, Bytes key, Bytes value) {
  bool found;
  u16 pos = node->lower_bound(key, &found);
  if (!found) {
    if (!node->fits(key, static_cast<u32>(value.size()))) return false;
    node->insert(key, value);
    return true;
  }
  if (!node->resize_value(pos, static_cast<u32>(value.size()))) return false;
  if (!value.empty()) std::memcpy(node->value_data(pos), value.data(), value.size());
  return true;
}

inline void test_redo(u8 op, Bytes operands, u8 *page) {
  Node *node = reinterpret_cast<Node *>(page);
  u16 key_bytes;
  std::memcpy(&key_bytes, operands.data(), sizeof key_bytes);
  Bytes key = operands.subspan(sizeof key_bytes, key_bytes),
        value = operands.subspan(sizeof key_bytes + key_bytes);
  ASSERT_EQ(node->verify(), nullptr);
  ASSERT_TRUE(node->is_leaf && node->covers(key));
  if (op == kTestPut) {
    ASSERT_TRUE(put(node, key, value));
    return;
  }
  bool found;
  u16 pos = node->lower_bound(key, &found);
  ASSERT_TRUE(found);
  node->remove(pos);
}

// XMerge may take every leaf.
inline bool any_leaf(const FileSlot &, const Node &) { return true; }

struct TreeUser {
  TreeUser(Ctx &ctx, FileSlot &file) : ctx(ctx), file(file), tree(ctx, file) {}

  // False: failed (last_error()), or for insert: present, for remove: absent.
  bool insert(const std::string &key, const std::string &value) {
    return change(key, value, false);
  }
  bool upsert(const std::string &key, const std::string &value) { return change(key, value, true); }

  bool change(const std::string &key, const std::string &value, bool replace) {
    const u32 bytes = static_cast<u32>(value.size());
    const u32 most = Node::most_entry_bytes(static_cast<u32>(key.size()), bytes);
    for (u32 need = replace ? 0 : most;;) {
      if (!reserve()) return false;
      ExclusiveGuard leaf;
      if (!ok(tree.leaf_exclusive(as_bytes(key), need, leaf))) return false;
      Node *node = reinterpret_cast<Node *>(leaf.page());
      bool found;
      const u16 pos = node->lower_bound(as_bytes(key), &found);
      if (found && !replace) return false;
      if (put(node, as_bytes(key), as_bytes(value))) {
        log_and_mark(leaf.frame(), kTestPut, key, value);
        return true;
      }
      need = found ? bytes - static_cast<u32>(node->value(pos).size()) : most;
      leaf.reset_unchanged();
    }
  }

  bool remove(const std::string &key) {
    if (!reserve()) return false;
    bool small;
    {
      ExclusiveGuard leaf;
      if (!ok(tree.leaf_exclusive(as_bytes(key), 0, leaf))) return false;
      Node *node = reinterpret_cast<Node *>(leaf.page());
      bool found;
      u16 pos = node->lower_bound(as_bytes(key), &found);
      if (!found) return false;
      node->remove(pos);
      log_and_mark(leaf.frame(), kTestRemove, key, "");
      small = node->used_bytes() < kNodeSpace * 40 / 100;
    }
    return !small || ok(tree.try_merge(as_bytes(key)));
  }

  std::string lookup(const std::string &key) {
    std::string value(kPageSize, '\0');
    u32 bytes = 0;
    if (!ok(tree.lookup(as_bytes(key), reinterpret_cast<u8 *>(value.data()), kPageSize, &bytes)))
      return "(not found)";
    value.resize(bytes);
    return value;
  }

  Model scan() {
    Model all;
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    std::string position;
    for (;;) {
      Status status = tree.leaf_copy(as_bytes(position), page);
      EXPECT_EQ(code(status), LS_OK) << last_error().message;
      if (!ok(status)) return all;
      collect(node, all);
      if (!node->has_upper) return all;
      position = as_string(node->upper_fence());
    }
  }

  Model scan_backward() {
    Model all;
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    std::string position;
    bool unbounded = true;
    for (;;) {
      Status status = tree.leaf_copy_before(as_bytes(position), unbounded, page);
      EXPECT_EQ(code(status), LS_OK) << last_error().message;
      if (!ok(status)) return all;
      size_t before = all.size();
      collect(node, all);
      EXPECT_EQ(all.size(), before + node->count) << "a leaf was met twice";
      position = as_string(node->lower_fence());
      unbounded = false;
      if (position.empty()) return all;
    }
  }

  bool verify(BTree::CheckResult *result) {
    Status status = tree.verify(result, nullptr, nullptr);
    EXPECT_EQ(code(status), LS_OK)
        << "page " << last_error().page_no << ": " << last_error().message;
    return ok(status);
  }

  // What was done, by GSN (logged trees, when `keep_history`): content at any point of the log.
  struct Change {
    Gsn gsn;
    u8 op;
    std::string key, value;
  };
  static void apply(const Change &change, Model &model) {
    if (change.op == kTestPut) model[change.key] = change.value;
    else model.erase(change.key);
  }

  Ctx &ctx;
  FileSlot &file;
  BTree tree;
  bool keep_history = false;
  std::vector<Change> history;

 private:
  bool reserve() {
    return !file.logged || ok(ctx.log->reserve(kMaxRecordBytes / 2, ctx.interrupt));
  }

  void log_and_mark(Frame *frame, u8 op, const std::string &key, const std::string &value) {
    Gsn gsn = 0;
    if (file.logged) {
      u16 key_bytes = static_cast<u16>(key.size());
      ctx.log->start(RecordKind::kSystem);
      ctx.log->op(file.file_no.load(), frame->page_no.load(), op,
                  {reinterpret_cast<u8 *>(&key_bytes), sizeof key_bytes}, as_bytes(key),
                  as_bytes(value));
      gsn = ctx.log->finish();
    }
    ctx.pool->mark_dirty(frame, gsn);
    if (keep_history) history.push_back({gsn, op, key, value});
  }

  static void collect(const Node *node, Model &all) {
    u8 key[kMaxKeyBytes];
    for (u16 i = 0; i < node->count; i++) {
      u16 bytes = node->copy_key(i, key);
      all[as_string({key, bytes})] = as_string(node->value(i));
    }
  }
};

}  // namespace ls::test
