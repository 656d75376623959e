// xgboost.hpp - training of boosted trees by XGBoost's C library, which is loaded when it is
// needed.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "flat_trees.hpp"

namespace ls::values {

// Rows of `columns` features each, NaN where one is missing, and a label (0 or 1) for each row.
struct Samples {
  u32 columns = 0;
  std::vector<float> features;
  std::vector<float> labels;

  size_t rows() const { return labels.size(); }
  void clear() {
    features.clear();
    labels.clear();
  }
};

class XgBoost {
 public:
  virtual ~XgBoost() = default;
  // Trees of these samples: 32 trees of at most 32 leaves, logistic loss.  With `margins`, what the
  // library itself predicts for the rows.
  virtual bool train(const Samples &samples, u64 seed, FlatTrees *trees,
                     std::vector<float> *margins, std::string *why) = 0;
};

// Null, and *why, where the library is not installed.
std::unique_ptr<XgBoost> load_xgboost(std::string *why);

}  // namespace ls::values
