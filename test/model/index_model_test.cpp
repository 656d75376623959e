// Random operations on an index against a sorted map: insertions with and without a look at equal
// keys, removals, ranges in both directions with turns and jumps, builds, restarts; keys of every
// length and with common prefixes, payloads up to the limit.
//
// One thread, so a seed repeats a failure: LS_SEED=<n>.
#include <random>

#include "model/seeds.hpp"
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexModel {
 public:
  explicit IndexModel(u64 seed) : random_(seed), store_(std::in_place) {
    shape_ = random_() % 4;
    session_.emplace(*store_, 0);
  }

  void run(int steps) {
    if (random_() % 2) build();
    begin();
    for (int i = 0; i < steps && !testing::Test::HasFailure(); i++) step();
    commit();
    check_all();
  }

 private:
  u64 roll(u64 n) { return random_() % n; }

  std::string any_key() {
    switch (shape_) {
      case 0: return number_key(roll(3000));
      case 1: return text_key(std::string(roll(20), 'a') + std::to_string(roll(200)));
      case 2:
        return text_key(std::string(roll(3) * 400, 'b') + std::string(roll(40), 'c') +
                        std::to_string(roll(1000)));
      default: {  // the longest there are, and the shortest
        if (roll(2)) return text_key(std::string(1, static_cast<char>('a' + roll(26))));
        std::string key(LS_MAX_KEY_BYTES, static_cast<char>('a' + roll(26)));
        key[roll(2) ? roll(key.size()) : key.size() - 1] = static_cast<char>('A' + roll(26));
        return key;
      }
    }
  }
  u64 any_row_id() {
    return shape_ == 1 ? roll(400) : roll(20) == 0 ? LS_MAX_ROW_ID - roll(9) : roll(5000);
  }
  std::string any_payload(const std::string &key) {
    const u32 most = ls_index_max_payload(static_cast<u32>(key.size()));
    switch (roll(shape_ == 0 ? 40 : 6)) {
      case 0: return std::string(most - roll(2), 'm');
      case 1: return std::string(roll(most / 2), 'n');
      default: return std::string(roll(30), 'o');
    }
  }
  std::string any_bound() {
    if (roll(10) == 0) return {};
    std::string bound = entry_of(any_key(), any_row_id());
    if (roll(2)) bound.resize(roll(bound.size() + 1));
    if (roll(10) == 0) bound += std::string(roll(300), '\xff');
    return bound;
  }

  void begin() { EXPECT_EQ(session_->begin(), LS_OK); }
  void commit() { session_->commit(); }

  void step() {
    switch (roll(20)) {
      case 0: case 1: case 2: case 3: case 4: case 5: insert(); break;
      case 6: case 7: case 8: insert_unique(); break;
      case 9: case 10: case 11: case 12: remove(); break;
      case 13: remove_run(); break;
      case 14: case 15: case 16: case 17: scan(); break;
      case 18: if (roll(60) == 0) restart(); break;
      default: if (roll(30) == 0) check_all(); break;
    }
  }

  void insert() {
    const std::string key = any_key();
    const u64 row_id = any_row_id();
    const std::string payload = any_payload(key);
    const bool there = model_.contains(entry_of(key, row_id));
    EXPECT_EQ(session_->add(key, row_id, payload), there ? LS_EXISTS : LS_OK)
        << session_->err.message;
    if (!there) model_[entry_of(key, row_id)] = payload;
  }

  void insert_unique() {
    const std::string key = any_key();
    const u64 row_id = any_row_id();
    std::vector<u64> equal, ignore;
    for (auto at = model_.lower_bound(entry_of(key, 0));
         at != model_.end() && at->first <= entry_of(key, LS_MAX_ROW_ID); ++at) {
      equal.push_back(row_id_of(at->first));
    }
    const bool all = roll(2);
    for (u64 id : equal) {
      if (all || roll(8)) ignore.push_back(id);
    }
    std::shuffle(ignore.begin(), ignore.end(), random_);
    bool conflict = ignore.size() < equal.size() || model_.contains(entry_of(key, row_id));
    u64 other = 0;
    EXPECT_EQ(session_->add_unique(key, row_id, ignore, &other), conflict ? LS_EXISTS : LS_OK)
        << session_->err.message;
    if (conflict) {
      EXPECT_TRUE(model_.contains(entry_of(key, other)));
      EXPECT_TRUE(other == row_id ||
                  std::find(ignore.begin(), ignore.end(), other) == ignore.end());
    } else {
      model_[entry_of(key, row_id)] = "";
    }
  }

  void remove() {
    if (model_.empty()) return;
    auto at = model_.lower_bound(any_bound());
    if (at == model_.end() || roll(5) == 0) {
      LS_EXPECT_OK(session_->take_away(any_key(), LS_MAX_ROW_ID / 2));  // there is none
      return;
    }
    remove_at(at);
  }
  void remove_run() {
    auto at = model_.lower_bound(any_bound());
    for (u64 n = roll(400); n > 0 && at != model_.end(); n--) at = remove_at(at);
  }
  std::map<std::string, std::string>::iterator remove_at(
      std::map<std::string, std::string>::iterator at) {
    LS_EXPECT_OK(session_->take_away(key_of(at->first), row_id_of(at->first)));
    return model_.erase(at);
  }

  void scan() {
    const std::string from = any_bound();
    std::optional<std::string> to;
    if (roll(3)) to = any_bound();
    std::vector<Entry> list;
    for (auto at = model_.lower_bound(from); at != model_.end() && (!to || at->first < *to); ++at) {
      list.push_back({key_of(at->first), row_id_of(at->first), at->second});
    }
    bool backward = roll(2);
    IndexScanner scan(session_->worker(), session_->index);
    scan.range(from, to, backward);
    i64 at = backward ? static_cast<i64>(list.size()) : 0;  // in front of entry `at`, or on it
    bool on = false;
    for (u64 n = roll(300); n > 0; n--) {
      if (roll(20) == 0) {
        backward = !backward;
        scan.set_backward(backward);
      } else if (roll(30) == 0) {
        const std::string position = any_bound();
        scan.seek(position);
        auto reached = std::find_if(list.begin(), list.end(), [&](const Entry &e) {
          return entry_of(e.key, e.row_id) >= position;
        });
        at = reached - list.begin();
        on = reached != list.end() && entry_of(reached->key, reached->row_id) == position;
      }
      at = backward ? at - 1 : at + (on ? 1 : 0);
      const std::optional<Entry> got = scan.next();
      on = at >= 0 && at < static_cast<i64>(list.size());
      if (!on) {
        ASSERT_EQ(got, std::nullopt);
        at = backward ? 0 : static_cast<i64>(list.size());
      } else {
        ASSERT_EQ(got, list[static_cast<size_t>(at)]);
      }
    }
  }

  void build() {
    for (u64 n = roll(3000); n > 0; n--) {
      const std::string key = any_key();
      model_.try_emplace(entry_of(key, any_row_id()), any_payload(key));
    }
    ls_index_build *build = nullptr;
    LS_ASSERT_OK(ls_index_build_open(session_->worker(), session_->index,
                                     static_cast<u32>(10 + roll(91)), &build, &err));
    for (auto &[entry, payload] : model_)
      LS_ASSERT_OK(ls_index_build_add(build, to_bytes(entry), to_bytes(payload), &err));
    LS_ASSERT_OK(ls_index_build_finish(build, &err));
  }

  void restart() {
    commit();
    session_.reset();
    store_->restart();
    session_.emplace(*store_, 0);
    begin();
  }

  void check_all() {
    EXPECT_EQ(session_->check(), model_.size());
    std::map<std::string, std::string> found;
    for (const Entry &e : session_->entries()) found[entry_of(e.key, e.row_id)] = e.payload;
    EXPECT_EQ(found, model_);
  }

  static std::string key_of(const std::string &entry) { return entry.substr(0, entry.size() - 5); }
  static u64 row_id_of(const std::string &entry) {
    u64 id = 0;
    for (char c : entry.substr(entry.size() - 5)) id = id << 8 | static_cast<u8>(c);
    return id;
  }

  std::mt19937_64 random_;
  std::optional<IndexStore> store_;
  std::optional<IndexSession> session_;
  std::map<std::string, std::string> model_;   // entry to payload
  u64 shape_ = 0;
  ls_error err{};
};

TEST(IndexModelTest, random_operations) {
  each_seed(8, [](u64 seed) {
    SCOPED_TRACE("LS_SEED=" + std::to_string(seed));
    IndexModel(seed).run(6000);
    return !testing::Test::HasFailure();
  });
}

}  // namespace
}  // namespace ls::test
