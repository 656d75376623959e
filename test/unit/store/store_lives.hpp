// store_lives.hpp - lives of a store one after the other on the same relation files, with the
// engine's directory kept or lost in between.
#pragma once
#include <filesystem>

#include "buffer/page.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {

namespace fs = std::filesystem;

class StoreLives : public ::testing::Test {
 protected:
  static constexpr u32 kTable = 16400, kOther = 16401;
  static constexpr int kRows = 200;

  StoreLives() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kOther);
  }

  // One life that ends as a crash of the host does, or in good order.
  enum class End { kCrash, kClean };
  void live(const std::function<void(Session &)> &work, End end) {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(next_xid_));
    Host host(store.store(), next_xid_);
    store_ = store.store();
    host_ = &host;
    {
      Session s(store.store(), &host, 0);
      work(s);
    }
    next_xid_ = host.next_xid() + 100;
    if (end == End::kCrash) LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  void fill(Session &s, u32 relation) {
    ls_rel *rel = s.open(relation);
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    u64 id = 0;
    for (int i = 0; i < kRows; i++) {
      ASSERT_EQ(s.insert(rel, "row " + std::to_string(i), &id), LS_OK) << s.err.message;
    }
    s.commit();
  }
  ls_status open(Session &s, u32 relation) {
    const ls_rel_key key = relation_key(relation);
    ls_rel rel;
    const std::string path = HostDirectory::relation_path(relation);
    return ls_rel_open(s.worker(), &key, path.c_str(), LS_REL_TABLE, true, &rel, &s.err);
  }
  // The engine's directory goes; one that is empty takes its place.
  void lose_store() {
    fs::rename(config_.data_dir, kept());
    fs::create_directory(config_.data_dir);
  }
  void put_store_back() {
    fs::remove_all(config_.data_dir);
    fs::rename(kept(), config_.data_dir);
  }
  // In the file, under a right checksum.
  void change_page(u32 relation, PageNo page_no, const std::function<void(u8 *page)> &change) {
    alignas(8) u8 page[kPageSize];
    std::fstream in(file(relation), std::ios::binary | std::ios::in | std::ios::out);
    in.seekg(std::streamoff{page_no} * kPageSize);
    in.read(reinterpret_cast<char *>(page), sizeof page);
    change(page);
    page_seal(page);
    in.seekp(std::streamoff{page_no} * kPageSize);
    in.write(reinterpret_cast<const char *>(page), sizeof page);
  }
  std::string kept() const { return temp_ / "kept"; }
  std::string file(u32 relation) const { return temp_ / HostDirectory::relation_path(relation); }

  ls_store *store_ = nullptr;   // of this life
  Host *host_ = nullptr;
  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  u64 next_xid_ = 100;
  ls_error err{};
};

}  // namespace ls::test
