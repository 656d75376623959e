// flat_trees.hpp - boosted trees as one array of nodes, and their evaluation.
//
// The children of a node lie side by side behind it, so that a walk goes forwards only and ends.
// Nothing here needs the library that has trained the trees.
#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace ls::values {

class FlatTrees {
 public:
  // A tree as XGBoost writes it: for each node its children (-1 and -1: a leaf), the feature and
  // the condition (of a leaf its value), and whether a missing feature goes left.
  struct Tree {
    std::vector<i32> left, right;
    std::vector<u32> features;
    std::vector<float> conditions;
    std::vector<u8> default_left;
  };

  // Whether the tree is one: each node has one parent, and no feature is beyond `columns`.
  bool add(const Tree &tree, u32 columns) {
    const size_t count = tree.left.size();
    if (count == 0 || tree.right.size() != count || tree.features.size() != count ||
        tree.conditions.size() != count || tree.default_left.size() != count)
      return false;
    const size_t begin = nodes_.size();
    std::vector<u32> origin = {0};  // of the nodes behind `begin`
    nodes_.push_back({});
    bool good = true;
    for (size_t i = 0; good && i < origin.size(); i++) {
      const u32 from = origin[i];
      Node &node = nodes_[begin + i];
      node.value = tree.conditions[from];
      if (tree.left[from] == -1 && tree.right[from] == -1) continue;
      const auto is_node = [&](i32 n) { return n > 0 && static_cast<size_t>(n) < count; };
      good = is_node(tree.left[from]) && is_node(tree.right[from]) &&
             tree.features[from] < columns && origin.size() + 2 <= count;
      if (!good) break;
      node.left = static_cast<u32>(nodes_.size());
      node.feature = static_cast<u16>(tree.features[from]);
      node.default_left = tree.default_left[from] != 0;
      origin.push_back(static_cast<u32>(tree.left[from]));
      origin.push_back(static_cast<u32>(tree.right[from]));
      nodes_.resize(nodes_.size() + 2);
    }
    if (good)
      roots_.push_back(static_cast<u32>(begin));
    else
      nodes_.resize(begin);
    return good;
  }

  // The logarithm of the odds; NaN is a missing feature.
  float margin(std::span<const float> features) const {
    float sum = 0;
    for (const u32 root : roots_) {
      const Node *node = &nodes_[root];
      while (node->left != 0) {
        const float value = features[node->feature];
        const bool goes_left = std::isnan(value) ? node->default_left : value < node->value;
        node = &nodes_[node->left + (goes_left ? 0 : 1)];
      }
      sum += node->value;
    }
    return sum;
  }

  bool empty() const { return roots_.empty(); }
  size_t trees() const { return roots_.size(); }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + roots_.size() * sizeof(u32); }

 private:
  struct Node {
    float value = 0;  // of a leaf, or the border: below it goes left
    u32 left = 0;     // 0: a leaf; the right child is behind the left one
    u16 feature = 0;
    bool default_left = false;
  };
  std::vector<Node> nodes_;
  std::vector<u32> roots_;
};

}  // namespace ls::values
