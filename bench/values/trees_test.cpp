// trees_test.cpp - tests of the evaluation of trees.
#include "trees_test.hpp"

#include "flat_trees.hpp"
#include "generators.hpp"
#include "xgboost.hpp"

namespace ls::values {
namespace {

//        feature 1 < 5 (missing: left)
//        0.25        feature 0 < -1 (missing: right)
//                    1          2
FlatTrees::Tree small_tree() {
  return {.left = {1, -1, 3, -1, -1},
          .right = {2, -1, 4, -1, -1},
          .features = {1, 0, 0, 0, 0},
          .conditions = {5, 0.25, -1, 1, 2},
          .default_left = {1, 0, 0, 0, 0}};
}

}  // namespace

std::string trees_are_walked() {
  FlatTrees trees;
  if (!trees.add(small_tree(), 2) || !trees.add(small_tree(), 2)) return "a tree is refused";
  struct {
    float features[2], margin;
  } const cases[] = {{{0, 4}, 0.5}, {{0, NAN}, 0.5}, {{-2, 5}, 2}, {{-1, 5}, 4}, {{NAN, 9}, 4}};
  for (const auto &c : cases)
    if (trees.margin(c.features) != c.margin) return std::to_string(trees.margin(c.features));
  return {};
}

std::string damaged_trees_are_refused() {
  FlatTrees trees;
  for (const i32 wrong : {-2, 0, 2, 5, 1 << 30}) {
    FlatTrees::Tree tree = small_tree();
    tree.left[2] = wrong;  // beyond the nodes, or a circle
    if (trees.add(tree, 2)) return "child " + std::to_string(wrong);
  }
  FlatTrees::Tree tree = small_tree();
  tree.right[1] = 3;  // a child on one side
  if (trees.add(tree, 2)) return "one child";
  if (trees.add(small_tree(), 1)) return "a feature that is not there";
  tree = small_tree();
  tree.conditions.pop_back();
  if (trees.add(tree, 2)) return "arrays of different lengths";
  return trees.empty() && !trees.add({}, 2) ? "" : "no tree";
}

std::string trees_predict_as_xgboost() {
  std::string why;
  const auto xgboost = load_xgboost(&why);
  if (!xgboost) return why;
  Samples samples;
  samples.columns = 10;
  u64 random = stream(1, 7);
  for (int row = 0; row < 4000; row++) {
    float sum = 0;
    for (u32 i = 0; i < samples.columns; i++) {
      const float value = std::floor(static_cast<float>(next_share(&random)) * 50) / 10;
      const bool missing = next_share(&random) < 0.1 * i;
      samples.features.push_back(missing ? NAN : value);
      if (!missing) sum += i % 2 == 0 ? value : -value;
    }
    samples.labels.push_back(sum + next_share(&random) > 1 ? 1 : 0);
  }
  FlatTrees trees;
  std::vector<float> margins;
  if (!xgboost->train(samples, 1, &trees, &margins, &why)) return why;
  int correct = 0;
  for (size_t row = 0; row < samples.rows(); row++) {
    const float margin = trees.margin({&samples.features[row * samples.columns], samples.columns});
    if (std::abs(margin - margins[row]) > 1e-5)
      return std::to_string(margin) + " instead of " + std::to_string(margins[row]);
    correct += (margin > 0) == (samples.labels[row] > 0);
  }
  return correct > 3400 ? "" : "learnt too little: " + std::to_string(correct) + " of 4000";
}

}  // namespace ls::values
