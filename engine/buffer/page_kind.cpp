// The table of functions through which the pool sees trees.  Registered while the process has one
// thread.
#include "base/check.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {
TreeOps registered_ops{};
}

void register_tree_ops(const TreeOps &ops) {
  // What one of them does the other has to undo.
  LS_ASSERT(!ops.shuffle == !ops.unshuffle);
  registered_ops = ops;
}

const TreeOps &tree_ops() {
  LS_CHECK(registered_ops.each_swip && registered_ops.latch_parent,
           "no tree operations are registered");
  return registered_ops;
}

void store_references(u8 *copy) {
  tree_ops().each_swip(copy, nullptr, [](void *, Swip *swip) {
    // The child cannot leave its frame while the page's latch is held: that takes it exclusively.
    *swip = Swip::evicted(swip->is_swizzled()
                              ? swip->frame()->page_no.load(std::memory_order_relaxed)
                              : swip->page_no());
    return true;
  });
}

const char *read_fault(const u8 *page, PageNo page_no, Gsn log_end, PageNo page_count) {
  if (const char *fault = page_fault(page, page_no, log_end)) return fault;
  return registered_ops.fault ? registered_ops.fault(page, page_count) : nullptr;
}

}  // namespace ls
