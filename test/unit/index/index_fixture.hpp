// index_fixture.hpp - a store with a table and an index on it, and sessions that work on both
// through engine.h.
#pragma once
#include "unit/store/store_fixture.hpp"

namespace ls::test {

inline constexpr u32 kTableRelation = 100, kIndexRelation = 200;

inline ls_bytes to_bytes(const std::string &s) {
  return {reinterpret_cast<const u8 *>(s.data()), static_cast<u32>(s.size())};
}
inline std::string to_string(ls_bytes b) {
  return std::string(reinterpret_cast<const char *>(b.data), b.len);
}

// Big endian behind a marker byte: order as of the numbers, no key a prefix of another.
inline std::string number_key(u64 n) {
  std::string key(1, '\1');
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(n >> shift));
  return key;
}
// Of any length; none is a prefix of another.
inline std::string text_key(const std::string &text) { return "\1" + text + std::string(1, '\0'); }
inline std::string entry_of(const std::string &key, u64 row_id) {
  std::string entry = key;
  for (int shift = 32; shift >= 0; shift -= 8) entry.push_back(static_cast<char>(row_id >> shift));
  return entry;
}

struct Entry {
  std::string key;
  u64 row_id = 0;
  std::string payload;
  bool operator==(const Entry &) const = default;
  friend std::ostream &operator<<(std::ostream &out, const Entry &e) {
    return out << testing::PrintToString(e.key) << "|" << e.row_id << " (" << e.payload.size()
               << " bytes)";
  }
};

class IndexStore {
 public:
  explicit IndexStore(const std::function<void(ls_config *)> &configure = {})
      : host_directory_(directory_.path()) {
    config_ = small_config(directory_.path());
    if (configure) configure(&config_);
    host_directory_.create_file(kTableRelation);
    host_directory_.create_file(kIndexRelation);
    start(3);
  }
  void start(u64 next_xid) {
    life_.emplace(config_);
    ls_status status = life_->recover(next_xid);
    ASSERT_EQ(status, LS_OK) << to_text(status, life_->err);
    host_.emplace(life_->store(), next_xid);
  }
  void restart() {
    u64 next_xid = host_->next_xid();
    ASSERT_EQ(life_->shutdown(), LS_OK) << life_->err.message;
    start(next_xid);
  }
  void crash() {
    u64 next_xid = host_->next_xid();
    ASSERT_EQ(ls_store_abandon(life_->store(), &life_->err), LS_OK) << life_->err.message;
    start(next_xid);
  }
  ls_store *store() { return life_->store(); }
  Host &host() { return *host_; }
  ls_stats stats() {
    ls_stats stats;
    ls_store_stats(store(), &stats);
    return stats;
  }
  const HostDirectory &directory() const { return host_directory_; }

 private:
  TempDirectory directory_;
  HostDirectory host_directory_;
  ls_config config_{};
  std::optional<StoreLife> life_;
  std::optional<Host> host_;
};

class IndexScanner {
 public:
  IndexScanner(ls_worker *worker, ls_rel *index) {
    ls_status status = ls_index_scan_open(worker, index, &scan_, &err);
    EXPECT_EQ(status, LS_OK) << to_text(status, err);
  }
  ~IndexScanner() { ls_index_scan_close(scan_); }
  IndexScanner(const IndexScanner &) = delete;
  IndexScanner &operator=(const IndexScanner &) = delete;

  void range(const std::string &from, const std::optional<std::string> &to, bool backward = false) {
    LS_EXPECT_OK(ls_index_scan_range(scan_, to_bytes(from),
                                     to ? to_bytes(*to) : ls_bytes{nullptr, 0}, backward, &err));
  }
  std::optional<Entry> next() {
    ls_index_entry e{};
    return returned(ls_index_scan_next(scan_, &e, &err), e);
  }
  std::vector<u64> ahead(u32 max) {
    std::vector<u64> rows(max);
    u32 count = 0;
    LS_EXPECT_OK(ls_index_scan_ahead(scan_, rows.data(), max, &count, &err));
    rows.resize(count);
    return rows;
  }
  std::optional<Entry> skip(u32 n) {
    ls_index_entry e{};
    return returned(ls_index_scan_skip(scan_, n, &e, &err), e);
  }
  struct Taken {
    Entry entry;
    bool same_key = false, visible = false;
  };
  // Nothing: LS_END.
  std::vector<Taken> take() {
    std::vector<Taken> taken;
    const ls_status status = ls_index_scan_take(scan_, &batch_, &err);
    if (status == LS_END) return taken;
    EXPECT_EQ(status, LS_OK) << to_text(status, err);
    for (u32 i = 0; status == LS_OK && i < batch_.count; i++) {
      const auto &[e, same_key, visible] = batch_.entries[i];
      taken.push_back(
          {{to_string(e.key), e.row_id, to_string(e.payload)}, same_key, visible});
      EXPECT_EQ(same_key, i != 0 && e.key.data == batch_.entries[i - 1].entry.key.data);
    }
    return taken;
  }
  void give_back(u32 n) { ls_index_scan_give_back(scan_, n); }
  std::optional<Entry> middle(const std::string &from, const std::optional<std::string> &to) {
    ls_index_entry e{};
    return returned(ls_index_scan_middle(scan_, to_bytes(from),
                                         to ? to_bytes(*to) : ls_bytes{nullptr, 0}, &e, &err),
                    e);
  }
  void seek(const std::string &position) {
    LS_EXPECT_OK(ls_index_scan_seek(scan_, to_bytes(position), &err));
  }
  void mark() { ls_index_scan_mark(scan_); }
  // The entry confirmed; nothing inside: the end.
  using Confirmed = std::optional<std::optional<Entry>>;
  Confirmed confirm() {
    ls_index_entry e{};
    if (!ls_index_scan_confirm(scan_, &e)) return std::nullopt;
    if (e.key.data == nullptr) return Confirmed(std::in_place);
    return Confirmed(Entry{to_string(e.key), e.row_id, to_string(e.payload)});
  }
  void set_backward(bool backward) { ls_index_scan_set_backward(scan_, backward); }
  u64 vouches() const { return ls_index_scan_vouches(scan_); }
  u64 searches() const { return ls_index_scan_searches(scan_); }
  std::vector<Entry> rest() {
    std::vector<Entry> entries;
    while (auto e = next()) entries.push_back(std::move(*e));
    return entries;
  }
  ls_error err{};

 private:
  std::optional<Entry> returned(ls_status status, const ls_index_entry &e) {
    if (status == LS_END) return std::nullopt;
    EXPECT_EQ(status, LS_OK) << to_text(status, err);
    if (status != LS_OK) return std::nullopt;
    return Entry{to_string(e.key), e.row_id, to_string(e.payload)};
  }
  ls_index_scan *scan_ = nullptr;
  ls_index_batch batch_{};
};

class IndexSession : public Session {
 public:
  IndexSession(IndexStore &store, u32 slot, bool logged = true)
      : Session(store.store(), &store.host(), slot) {
    table = open(kTableRelation, logged);
    index = open(kIndexRelation, logged, LS_REL_INDEX);
  }

  ls_status add(const std::string &key, u64 row_id, const std::string &payload = {}) {
    return ls_index_insert(worker(), index, table, to_bytes(key), row_id, to_bytes(payload), &err);
  }
  ls_status add_unique(const std::string &key, u64 row_id, const std::vector<u64> &ignore,
                       u64 *other) {
    return ls_index_insert_unique(worker(), index, table, to_bytes(key), row_id, {nullptr, 0},
                                  ignore.data(), static_cast<u32>(ignore.size()), other, &err);
  }
  ls_status take_away(const std::string &key, u64 row_id) {
    const ls_index_entry entry{row_id, to_bytes(key), {}};
    return ls_index_remove(worker(), index, table, &entry, &err);
  }
  std::vector<Entry> entries(bool backward = false) {
    IndexScanner scan(worker(), index);
    scan.range({}, std::nullopt, backward);
    return scan.rest();
  }
  u64 check() {
    ls_check_result result{};
    LS_EXPECT_OK(ls_rel_check(worker(), index, &result, &err));
    return result.rows;
  }

  ls_rel *table = nullptr;
  ls_rel *index = nullptr;
};

}  // namespace ls::test
