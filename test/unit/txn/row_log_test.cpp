// The log of row changes: redo from nothing gives the pages that the changes have made, undo of a loser gives back what was
// before, both whatever was done at run time in between.
#include <random>

#include "unit/txn/txn_fixture.hpp"
#include "wal/log_reader.hpp"

namespace ls::txn_test {
namespace {

TEST(RowLog, patch_is_the_middle_that_differs) {
  const auto check = [](const std::string &before, const std::string &after, size_t offset, size_t cut, const std::string &fresh) {
    const Patch p = make_patch(bytes_of(before), bytes_of(after));
    EXPECT_EQ(p.offset, offset) << before << "/" << after;
    EXPECT_EQ(p.cut, cut) << before << "/" << after;
    EXPECT_EQ(std::string(p.fresh.begin(), p.fresh.end()), fresh) << before << "/" << after;
    u8 out[kPageSize];
    u32 bytes = 0;
    EXPECT_TRUE(apply_patch(bytes_of(before), p, out, &bytes));
    EXPECT_EQ(std::string(out, out + bytes), after);
  };
  check("abcdef", "abXdef", 2, 1, "X");
  check("abcdef", "abcdef", 6, 0, "");
  check("", "abc", 0, 0, "abc");
  check("abc", "", 0, 3, "");
  check("aaaa", "aaaaaa", 4, 0, "aa");
  check("aaaaaa", "aaaa", 4, 2, "");
  check("abab", "abXab", 2, 0, "X");
}

TEST(RowLog, damaged_operands_are_refused) {
  alignas(8) u8 page[kPageSize] = {};
  Node *node = reinterpret_cast<Node *>(page);
  node->header.kind = PageKind::kLeaf;
  node->init(true, 0, {}, {}, false);
  const u8 operands[64] = {9};
  for (u32 size = 0; size < 16; size++) {
    for (const u16 op : {kRowUpdate, kRowDelete, kRowRestore}) {
      EXPECT_EQ(code(row_redo(op, Bytes(operands, size), page, 1)), LS_CORRUPT) << size;
    }
  }
  EXPECT_EQ(code(row_redo(kRowRemove, Bytes(operands, 5), page, 1)), LS_CORRUPT) << "no such row";
  EXPECT_EQ(code(row_redo(kOpRow | 0x7f, Bytes(operands, 5), page, 1)), LS_CORRUPT) << "unknown";
  ASSERT_TRUE(ok(row_redo(kRowInsert, Bytes(operands, 20), page, 1)));
  EXPECT_EQ(code(row_redo(kRowInsert, Bytes(operands, 20), page, 1)), LS_CORRUPT) << "twice";
  u8 patch[20] = {9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 0, 5, 0, 0};
  EXPECT_EQ(code(row_redo(kRowUpdate, Bytes(patch, sizeof patch), page, 1)), LS_CORRUPT) << "beyond the row";
}

// Everything in the log, as recovery reads it.
struct Record {
  RecordKind kind;
  Tn tn;            // of kRow
  Gsn gsn;
  std::vector<std::pair<PageOpHeader, std::vector<u8>>> ops;
};

std::vector<Record> read_records(Engine &engine) {
  EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
  LogImage image;
  EXPECT_TRUE(ok(read_log((engine.path() + "/wal").c_str(), 4 << 20, 0, 0, image))) << last_error().message;
  std::map<u32, Tn> tns;
  std::vector<Record> records;
  for (const LogEntry &e : image.entries) {
    RecordHeader header;
    std::memcpy(&header, e.data, sizeof header);
    if (header.kind == RecordKind::kBegin) std::memcpy(&tns[e.slot], e.data + sizeof header, sizeof(Tn));
    Record r{header.kind, header.kind == RecordKind::kRow ? tns[e.slot] : 0, header.gsn, {}};
    u32 at = sizeof header;
    for (u32 i = 0; i < header.ops; i++) {
      PageOpHeader op;
      std::memcpy(&op, e.data + at, sizeof op);
      at += sizeof op;
      r.ops.emplace_back(op, std::vector<u8>(e.data + at, e.data + at + op.bytes));
      at += op.bytes;
    }
    records.push_back(std::move(r));
  }
  return records;
}

// Rows of a leaf without what redo does not restore: command ids and volatile flags.
void rows_of(const Node *node, std::map<u64, std::string> *rows) {
  for (u16 i = 0; i < node->count; i++) {
    u8 key[kMaxKeyBytes];
    node->copy_key(i, key);
    const Bytes v = node->value(i);
    RowHeader h = RowHeader::load(v.data());
    h = RowHeader::make(h.tn(), static_cast<u8>(h.flags() & ~kVolatileFlags), 0, 0, h.seq);
    std::string value(reinterpret_cast<const char *>(&h), sizeof h);
    value.append(reinterpret_cast<const char *>(v.data()) + sizeof h, v.size() - sizeof h);
    (*rows)[decode_row_key(key)] = value;
  }
}

std::map<u64, std::string> table_rows(Engine &engine, FileSlot &file) {
  std::map<u64, std::string> rows;
  BTree tree(engine.own().ctx, file);
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  u32 from_bytes = 0;
  for (bool more = true; more;) {
    EXPECT_TRUE(ok(tree.leaf_copy(Bytes(from, from_bytes), leaf)));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    rows_of(node, &rows);
    more = node->has_upper;
    from_bytes = static_cast<u32>(node->upper_fence().size());
    if (more) std::memcpy(from, node->upper_fence().data(), from_bytes);
  }
  return rows;
}

struct Pages {
  struct alignas(8) Page { u8 bytes[kPageSize]; };
  std::map<PageNo, std::unique_ptr<Page>> pages;

  u8 *page(PageNo no) {
    auto &p = pages[no];
    if (!p) p = std::make_unique<Page>();
    return p->bytes;
  }
  void redo(const std::vector<Record> &records, FileNo file) {
    for (const Record &r : records) {
      for (const auto &[op, operands] : r.ops) {
        if (op.file != file) continue;
        const bool row = (op.code & 0xff00) == kOpRow;
        const Bytes bytes(operands.data(), operands.size());
        const Status s = row ? row_redo(op.code, bytes, page(op.page), r.tn) : BTree::redo(op.code, bytes, page(op.page), op.page);
        ASSERT_TRUE(ok(s)) << "gsn " << r.gsn << ": " << last_error().message;
      }
    }
  }
  // Of the leaves reachable from the root.
  void collect(u64 swip, std::map<u64, std::string> *rows) {
    const Node *node = reinterpret_cast<const Node *>(page(Swip{swip}.page_no()));
    if (node->is_leaf) return rows_of(node, rows);
    for (u16 i = 0; i <= node->count; i++) collect(const_cast<Node *>(node)->child(i)->raw, rows);
  }
  std::map<u64, std::string> rows() {
    std::map<u64, std::string> all;
    collect(reinterpret_cast<const MetaPage *>(page(0))->root, &all);
    return all;
  }
};

class RowLogTest : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  std::mt19937_64 rng{11};
  u64 next_id = 1000;

  std::string random_data() {
    return std::string(rng() % 600, static_cast<char>('a' + rng() % 3)) + std::string(rng() % 20, static_cast<char>('a' + rng() % 26));
  }
  void change(Session &s) {
    const u64 row = 1 + rng() % 40;
    switch (rng() % 6) {
      case 0: (void)!ok(s.remove(table, row, rng() % 2 ? row + 7 : 0)); break;
      case 1: TXN_EXPECT_OK(s.insert(table, next_id += 1 + rng() % 2, random_data())); break;
      case 2: (void)!ok(s.lock(table, row, LS_LOCK_KEY_SHARE)); break;
      default: (void)!ok(s.update(table, row, random_data())); break;
    }
  }
  void fill() {
    a.begin();
    for (u64 i = 1; i <= 40; i++) TXN_ASSERT_OK(a.insert(table, i, random_data()));
    a.commit();
  }
};

TEST_F(RowLogTest, redo_repeats_history) {
  fill();
  for (int round = 0; round < 40; round++) {
    a.begin();
    u32 savepoint = 0;
    for (int i = 0; i < 20; i++) {
      if (i == 10) savepoint = txn_savepoint(a.worker());
      change(a);
    }
    if (round % 3 == 0) txn_rollback_to(a.worker(), savepoint);
    round % 4 == 0 ? a.abort() : a.commit();
    if (round % 5 == 0) {
      host.publish_horizon();
      u64 removed;
      TXN_ASSERT_OK(clean_round(engine.own(), &removed));
    }
  }
  a.begin();
  TXN_ASSERT_OK(row_insert_raw(a.worker(), table, 900, kFirstTn, bytes_of("raw")));
  TXN_ASSERT_OK(row_insert(a.worker(), table, 901, 1, LS_ROW_SPECULATIVE, bytes_of("kept")));
  TXN_ASSERT_OK(row_insert(a.worker(), table, 902, 2, LS_ROW_SPECULATIVE, bytes_of("refused")));
  TXN_ASSERT_OK(row_finish_speculative(a.worker(), table, 901, 3, true));
  TXN_ASSERT_OK(row_finish_speculative(a.worker(), table, 902, 4, false));
  a.commit();
  u64 first;
  TXN_ASSERT_OK(row_ids(a.worker(), table, 1, &first));
  Pages pages;
  pages.redo(read_records(engine), table.file_no.load());
  EXPECT_EQ(pages.rows(), table_rows(engine, table));
  EXPECT_EQ(reinterpret_cast<const MetaPage *>(pages.page(0))->row_id_high, table.row_id_reserved.load());
}

TEST_F(RowLogTest, undo_of_a_loser_gives_back_what_was_before) {
  fill();
  for (int round = 0; round < 15; round++) {
    b.begin();
    for (int i = 0; i < 10; i++) change(b);
    b.commit();
    const auto before = b.contents(table);
    a.begin();
    const Tn loser = a.tn();
    u32 savepoint = 0;
    for (int i = 0; i < 30; i++) {
      if (i == 15) savepoint = txn_savepoint(a.worker());
      change(a);
    }
    if (round % 2) txn_rollback_to(a.worker(), savepoint);  // what is compensated already must be left alone
    const auto records = read_records(engine);
    auto undoer = engine.worker(5);
    for (int times = 0; times < 2; times++) {  // recovery may crash and begin again
      for (size_t i = records.size(); i-- > 0;) {
        if (records[i].tn != loser) continue;
        const auto &[op, operands] = records[i].ops[0];
        TXN_ASSERT_OK(row_undo(*undoer, table, op, Bytes(operands.data(), operands.size()), loser));
      }
    }
    EXPECT_EQ(b.contents(table), before) << "round " << round;
    a.abort();  // finds nothing to do
    EXPECT_EQ(b.contents(table), before) << "round " << round;
    Pages pages;
    pages.redo(read_records(engine), table.file_no.load());
    EXPECT_EQ(pages.rows(), table_rows(engine, table)) << "undo is logged";
  }
}

}  // namespace
}  // namespace ls::txn_test
