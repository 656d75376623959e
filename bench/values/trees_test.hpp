// trees_test.hpp - tests of the evaluation of trees.  Empty, or what is wrong.
#pragma once
#include <string>

namespace ls::values {

std::string trees_are_walked();
std::string damaged_trees_are_refused();
// Only where XGBoost is: the same margins as its own, on random rows with missing features.
std::string trees_predict_as_xgboost();

}  // namespace ls::values
