// redo_fuzz.cpp - what the log says about a page, done to a sound one: it is refused, or leaves a
// page that is sound, too.
//
//   input   which page, 1 | for each operation: code, 1 | bytes, 2 | operands
#include "btree/stored_page.hpp"
#include "buffer/page_allocator.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/records.hpp"
#include "recovery/redo_page.hpp"

namespace ls::fuzz {

namespace {

constexpr Tn kTn = 700;
constexpr u32 kMostOps = 12;

const std::vector<std::pair<std::string, PagePtr>> &pages() {
  static const auto all = sample_pages();
  return all;
}

// What recovery asks about an operation before it does it.
void ask(const TreeOps &ops, const PageOperation &op) {
  u8 room[kRowKeyBytes];
  Bytes key;
  if (ops.key_of(op, room, &key)) (void)touch(key);
  PageNo page_no;
  (void)is_file_cut(op.code, op.operands, &page_no);
  (void)gives_back(op.code, op.operands, &page_no);
  Tn newest;
  (void)index_removal_newest(op.code, op.operands, &newest);
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (const SampleOp &op : sample_ops()) {
    for (u8 page = 0; page < pages().size(); page++) {
      Output seed;
      seed.number(page).number(op.code).number(static_cast<u16>(op.operands.size()));
      const std::string name = op.name + "_" + pages()[page].first;
      write(name.c_str(), seed.bytes(op.operands));
    }
  }
}

void test_one(Input &input) {
  static const TreeOps ops = redo_tree_ops();
  const PagePtr page = copy_page_of(pages()[input.byte() % pages().size()].second->bytes);
  const PageNo page_no = page->node()->header.page_no;
  for (u32 n = 0; n < kMostOps && !input.empty(); n++) {
    const u8 code = input.byte();
    const Bytes operands = input.take(input.number<u16>());
    // In memory of their own: what is read behind them is seen.
    const Buffer own(operands.begin(), operands.end());
    const PageOperation op{code, own, kTn};
    ask(ops, op);
    const Status status = ops.redo(op, page->bytes, page_no);
    expect_refusal_or(status);
    if (!ok(status)) return;
    FUZZ_CHECK(stored_page_fault(page->bytes, kInvalidPageNo) == nullptr);
  }
}

}  // namespace ls::fuzz
