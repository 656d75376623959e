// The log of row changes: redo from nothing gives the pages that the changes have made, undo of a
// loser gives back what was before, both whatever was done at run time in between.
#include <random>

#include "btree/leaf_reads.hpp"
#include "txn/row_undo.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "unit/wal/log_image.hpp"

namespace ls::txn_test {
namespace {

TEST(RowLog, patch_is_the_middle_that_differs) {
  const auto check = [](const std::string &before, const std::string &after, size_t offset,
                        size_t cut, const std::string &fresh) {
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
  for (const u8 op : {kRowUpdate, kRowDelete, kRowRestore}) {
    for (u32 size = 0; size < 16; size++) {
      EXPECT_EQ(code(row_redo(op, Bytes(operands, size), page, 1)), LS_CORRUPT) << size;
    }
  }
  const u8 key[] = {18};  // 9, as a difference
  EXPECT_EQ(code(row_redo(kRowRemove, key, page, 1)), LS_CORRUPT) << "no such row";
  EXPECT_EQ(code(row_redo(kOpRow | 0xf, Bytes(operands, 5), page, 1)), LS_CORRUPT) << "unknown";
  ASSERT_TRUE(ok(row_redo(kRowInsert, Bytes(operands, 20), page, 1)));
  EXPECT_EQ(code(row_redo(kRowInsert, Bytes(operands, 20), page, 1)), LS_CORRUPT) << "twice";
  const auto update = [&](std::initializer_list<u8> bytes) {
    return code(row_redo(kRowUpdate, Bytes(bytes.begin(), bytes.size()), page, 1));
  };
  EXPECT_EQ(update({9, 1, 0, 100, 0, 7}), LS_CORRUPT) << "beyond the row";
  EXPECT_EQ(update({9, 1, 0, 3, 2, 7}), LS_CORRUPT) << "less than was there before";
  EXPECT_EQ(update({9, 1, 8, 3, 0, 7}), LS_CORRUPT) << "a header field that is none";
  EXPECT_EQ(update({9, 1, 1, LS_ROW_LOCKED, 3, 0, 7}), LS_CORRUPT) << "a flag that is not logged";
  EXPECT_EQ(update({9, 1, 0, 3, 0, 7}), LS_OK);
  // Three rows, cut short anywhere; no row; more than a leaf has.
  const u8 many[] = {20, 1, 2, 'a', 'b', 0, 1, 'c'};
  for (u32 size = 0; size < sizeof many; size++) {
    if (size == 5 || size == 6) continue;   // that is two rows less, or one
    EXPECT_EQ(code(row_redo(kRowInsertMany, Bytes(many, size), page, 1)), LS_CORRUPT) << size;
  }
  ASSERT_TRUE(ok(row_redo(kRowInsertMany, Bytes(many, sizeof many), page, 1)));
  EXPECT_EQ(node->count, 4);
  EXPECT_EQ(code(row_redo(kRowInsertMany, Bytes(many, sizeof many), page, 1)), LS_CORRUPT)
      << "twice";
  std::vector<u8> rows{30, 1};
  rows.resize(2 + kMaxLeafRows + 1);   // empty ones
  EXPECT_EQ(code(row_redo(kRowInsertMany, Bytes(rows), page, 1)), LS_CORRUPT) << "too many";
}

// Whatever the bytes: an error, or a change; the page stays one.
TEST(RowLog, random_operands_do_no_harm) {
  std::mt19937_64 rng{17};
  alignas(8) u8 page[kPageSize] = {};
  Node *node = reinterpret_cast<Node *>(page);
  for (int round = 0; round < 20000; round++) {
    if (round % 50 == 0) {
      std::memset(page, 0, sizeof page);
      node->header.kind = PageKind::kLeaf;
      node->init(true, 0, {}, {}, false);
    }
    // Rows that make sense, damaged in a place or two or not at all.
    std::vector<u8> operands{static_cast<u8>(rng() % 100), static_cast<u8>(rng() % 4)};
    for (u64 row = rng() % 6; row-- > 0;) {
      u8 length[kMaxVarintBytes];
      const u64 bytes = rng() % 300;
      operands.insert(operands.end(), length, length + put_varint(length, bytes));
      operands.resize(operands.size() + bytes, static_cast<u8>(rng()));
    }
    for (u64 damage = rng() % 3; damage-- > 0;)
      operands[rng() % operands.size()] = static_cast<u8>(rng());
    if (rng() % 4 == 0) operands.resize(rng() % operands.size());
    const u8 op = rng() % 2 ? u8{kRowInsertMany} : static_cast<u8>(kOpRow | rng() % 16);
    if (op == kRowIdHigh) continue;   // of another page
    (void)ok(row_redo(op, Bytes(operands), page, 1));
    ASSERT_EQ(node->verify(), nullptr) << "round " << round;
  }
}

// Everything in the log, as recovery reads it.
struct Record {
  bool row;
  Tn tn;            // of a row record
  Gsn gsn;
  std::vector<std::pair<LogOp, std::vector<u8>>> ops;
};

std::vector<Record> read_records(Engine &engine) {
  EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
  LogImage image;
  EXPECT_TRUE(ok(read_log((engine.path() + "/wal").c_str(), 4 << 20, 0, 0, image)))
      << last_error().message;
  std::map<u32, Tn> tns;
  std::vector<Record> records;
  for (const LogEntry &e : image.entries) {
    const LogRecord record = e.record();
    if (record.kind == RecordKind::kFirstRow) tns[e.slot] = record.tn();
    const bool row = record.kind == RecordKind::kRow || record.kind == RecordKind::kFirstRow;
    Record r{row, row ? tns[e.slot] : 0, e.gsn, {}};
    for (LogBytes left = has_page_operations(record.kind) ? record.body : LogBytes();
         !left.empty();) {
      LogOp op;
      EXPECT_EQ(load_op(&left, &op), nullptr);
      r.ops.emplace_back(op, std::vector<u8>(op.operands.begin(), op.operands.end()));
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
        const bool row = op_family(op.code) == kOpRow;
        const Bytes bytes(operands.data(), operands.size());
        const Status s = row ? row_redo(op.code, bytes, page(op.page), r.tn)
                             : BTree::redo(op.code, bytes, page(op.page), op.page);
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
  u64 low_id = 800;   // rows are there from here up to 1000, inserted downwards

  std::string random_data() {
    return std::string(rng() % 600, static_cast<char>('a' + rng() % 3)) +
           std::string(rng() % 20, static_cast<char>('a' + rng() % 26));
  }
  void insert_many(Session &s, u64 first, u32 count) {
    std::vector<std::string> data(count);
    std::vector<ls_bytes> rows;
    for (std::string &d : data) {
      d = random_data();
      rows.push_back({reinterpret_cast<const u8 *>(d.data()), static_cast<u32>(d.size())});
    }
    u32 inserted = 0;
    TXN_EXPECT_OK(row_insert_many(s.worker(), table, first, s.cid++, rows, &inserted));
    EXPECT_EQ(inserted, count);
  }
  void change(Session &s) {
    const u64 row = 1 + rng() % 40;
    const u32 count = 1 + rng() % 12;
    switch (rng() % 8) {
      case 6:
        insert_many(s, next_id + 1, count);
        next_id += count;
        TXN_EXPECT_OK(s.update(table, next_id - rng() % count, random_data()));
        break;
      case 7:   // in front of others
        if (low_id - count <= 40) return;
        insert_many(s, low_id -= count, count);
        break;
      case 0: (void)!ok(s.remove(table, row, rng() % 2 ? row + 7 : 0)); break;
      case 1: TXN_EXPECT_OK(s.insert(table, next_id += 1 + rng() % 2, random_data())); break;
      case 2: (void)!ok(s.lock(table, row, LS_LOCK_KEY_SHARE)); break;
      default: (void)!ok(s.update(table, row, random_data())); break;
    }
  }
  void fill() {
    a.begin();
    for (u64 i = 1; i <= 20; i++) TXN_ASSERT_OK(a.insert(table, i, random_data()));
    insert_many(a, 21, 20);
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
  TXN_ASSERT_OK(row_insert_copied(a.worker(), table, 900, copied_row(kFirstTn, "raw")));
  TXN_ASSERT_OK(
      row_insert_copied(a.worker(), table, 903, copied_row(kFirstTn, "deleted", LS_ROW_GHOST)));
  TXN_ASSERT_OK(row_insert_copied(a.worker(), table, 904,
                                  copied_row(kFirstTn, "moved", LS_ROW_GHOST | LS_ROW_MOVED, 901)));
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
  EXPECT_EQ(reinterpret_cast<const MetaPage *>(pages.page(0))->row_id_high,
            table.row_id_reserved.load());
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
    // what is compensated already must be left alone
    if (round % 2) txn_rollback_to(a.worker(), savepoint);
    const auto records = read_records(engine);
    auto undoer = engine.worker(5);
    LeafReads reads;
    for (int times = 0; times < 2; times++) {  // recovery may crash and begin again
      for (size_t i = records.size(); i-- > 0;) {
        if (records[i].tn != loser) continue;
        const auto &[op, operands] = records[i].ops[0];
        RowUndo undo, from_file;
        TXN_ASSERT_OK(row_undo_of(
            {op.file, op.page, op.code, Bytes(operands.data(), operands.size())}, &undo));
        const LogPacker packed = pack_row_undo(undo);
        std::vector<u8> item(Bytes(packed).begin(), Bytes(packed).end());
        item.insert(item.end(), undo.patch.fresh.begin(), undo.patch.fresh.end());
        ASSERT_TRUE(parse_row_undo(item, &from_file));
        TXN_ASSERT_OK(row_undo(*undoer, table, from_file, loser, reads));
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
