// xgboost.cpp - training by XGBoost's C library.
//
// The functions are declared here as the library's documentation does, so no header is needed to
// compile, and no library to start.
#include "xgboost.hpp"

#include <dlfcn.h>

#include <charconv>
#include <cstring>
#include <utility>

namespace ls::values {
namespace {

constexpr int kTrees = 32;
constexpr const char *kLibraries[] = {"libxgboost.so.0", "libxgboost.so", "libxgboost.so.1"};
// As the authors of DumpKV train LightGBM: 32 leaves, rate 0.1, four fifths of rows and columns,
// at least 20 rows in a leaf (of a weight of at most a quarter each).
constexpr std::pair<const char *, const char *> kParameters[] = {{"objective", "binary:logistic"},
                                                                 {"tree_method", "hist"},
                                                                 {"grow_policy", "lossguide"},
                                                                 {"max_leaves", "32"},
                                                                 {"max_depth", "0"},
                                                                 {"eta", "0.1"},
                                                                 {"subsample", "0.8"},
                                                                 {"colsample_bytree", "0.8"},
                                                                 {"min_child_weight", "5"},
                                                                 {"base_score", "0.5"},
                                                                 {"nthread", "1"},
                                                                 {"verbosity", "0"}};

using Matrix = void *;
using Booster = void *;

struct Functions {
  const char *(*last_error)();
  int (*matrix_create)(const float *, u64 rows, u64 columns, float missing, Matrix *);
  int (*matrix_set)(Matrix, const char *field, const float *, u64 count);
  int (*matrix_free)(Matrix);
  int (*create)(const Matrix *, u64 count, Booster *);
  int (*set)(Booster, const char *name, const char *value);
  int (*update)(Booster, int iteration, Matrix);
  int (*predict)(Booster, Matrix, const char *config, const u64 **shape, u64 *dimensions,
                 const float **result);
  int (*save)(Booster, const char *config, u64 *length, const char **bytes);
  int (*free)(Booster);
};

// The arrays of one tree in the library's JSON, found by their names; `from` moves behind them.
class ModelText {
 public:
  explicit ModelText(std::string_view text) : text_(text) {}

  bool next(FlatTrees::Tree *tree) {
    return numbers("\"left_children\":[", &at_left_, &tree->left) &&
           numbers("\"right_children\":[", &at_right_, &tree->right) &&
           numbers("\"split_indices\":[", &at_features_, &tree->features) &&
           numbers("\"split_conditions\":[", &at_conditions_, &tree->conditions) &&
           numbers("\"default_left\":[", &at_default_, &tree->default_left);
  }

 private:
  template <typename T>
  bool numbers(std::string_view name, size_t *from, std::vector<T> *values) {
    const size_t found = text_.find(name, *from);
    if (found == std::string_view::npos) return false;
    size_t at = found + name.size();
    values->clear();
    while (at < text_.size() && text_[at] != ']') {
      T value{};
      const auto [end, error] =
          std::from_chars(text_.data() + at, text_.data() + text_.size(), value);
      if (error != std::errc()) return false;
      values->push_back(value);
      at = static_cast<size_t>(end - text_.data());
      if (at < text_.size() && text_[at] == ',') at++;
    }
    *from = at;
    return at < text_.size();
  }

  std::string_view text_;
  size_t at_left_ = 0, at_right_ = 0, at_features_ = 0, at_conditions_ = 0, at_default_ = 0;
};

class Loaded : public XgBoost {
 public:
  explicit Loaded(const Functions &functions) : f_(functions) {}

  bool train(const Samples &samples, u64 seed, FlatTrees *trees, std::vector<float> *margins,
             std::string *why) override {
    Matrix matrix = nullptr;
    Booster booster = nullptr;
    const u64 rows = samples.rows();
    bool good =
        f_.matrix_create(samples.features.data(), rows, samples.columns, NAN, &matrix) == 0 &&
        f_.matrix_set(matrix, "label", samples.labels.data(), rows) == 0 &&
        f_.create(&matrix, 1, &booster) == 0 && grow(booster, matrix, seed) &&
        (!margins || predict(booster, matrix, rows, margins));
    if (!good) *why = f_.last_error();
    if (good && !flatten(booster, samples.columns, trees)) {
      *why = "XGBoost's model is not as expected";
      good = false;
    }
    if (booster) f_.free(booster);
    if (matrix) f_.matrix_free(matrix);
    return good;
  }

 private:
  bool grow(Booster booster, Matrix matrix, u64 seed) {
    for (const auto &[name, value] : kParameters)
      if (f_.set(booster, name, value) != 0) return false;
    if (f_.set(booster, "seed", std::to_string(seed % 1'000'000'007).c_str()) != 0) return false;
    for (int i = 0; i < kTrees; i++)
      if (f_.update(booster, i, matrix) != 0) return false;
    return true;
  }

  bool predict(Booster booster, Matrix matrix, u64 rows, std::vector<float> *margins) {
    const u64 *shape;
    u64 dimensions;
    const float *result;
    const char *config =
        R"({"type":1,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":false})";
    if (f_.predict(booster, matrix, config, &shape, &dimensions, &result) != 0) return false;
    margins->assign(result, result + rows);
    return true;
  }

  bool flatten(Booster booster, u32 columns, FlatTrees *trees) {
    u64 length;
    const char *bytes;
    if (f_.save(booster, R"({"format":"json"})", &length, &bytes) != 0) return false;
    ModelText text({bytes, length});
    FlatTrees::Tree tree;
    FlatTrees read;
    while (text.next(&tree))
      if (!read.add(tree, columns)) return false;
    if (read.trees() != kTrees) return false;
    *trees = std::move(read);
    return true;
  }

  Functions f_;
};

template <typename F>
bool find(void *library, const char *name, F *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof(symbol));
  return symbol != nullptr;
}

}  // namespace

std::unique_ptr<XgBoost> load_xgboost(std::string *why) {
  void *library = nullptr;
  for (const char *name : kLibraries)
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *why = "XGBoost's library is not installed (Debian: libxgboost-dev)";
    return nullptr;
  }
  Functions f;
  if (!find(library, "XGBGetLastError", &f.last_error) ||
      !find(library, "XGDMatrixCreateFromMat", &f.matrix_create) ||
      !find(library, "XGDMatrixSetFloatInfo", &f.matrix_set) ||
      !find(library, "XGDMatrixFree", &f.matrix_free) ||
      !find(library, "XGBoosterCreate", &f.create) || !find(library, "XGBoosterSetParam", &f.set) ||
      !find(library, "XGBoosterUpdateOneIter", &f.update) ||
      !find(library, "XGBoosterPredictFromDMatrix", &f.predict) ||
      !find(library, "XGBoosterSaveModelToBuffer", &f.save) ||
      !find(library, "XGBoosterFree", &f.free)) {
    *why = "XGBoost's library lacks a function";
    return nullptr;
  }
  return std::make_unique<Loaded>(f);
}

}  // namespace ls::values
