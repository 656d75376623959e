// The table of functions through which the pool sees trees.  Registered while the process has one thread.
#include "base/check.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {
TreeOps registered_ops{};
}

void register_tree_ops(const TreeOps &ops) { registered_ops = ops; }

const TreeOps &tree_ops() {
  LS_CHECK(registered_ops.each_swip && registered_ops.latch_parent, "no tree operations are registered");
  return registered_ops;
}

}  // namespace ls
