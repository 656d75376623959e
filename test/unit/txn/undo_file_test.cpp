// Undo files: read back in both directions; what lies behind the end, and what is damage.
#include "txn/undo_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "os/file.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls::test {
namespace {

constexpr u64 kOwner = 4711;

class UndoFileTest : public ::testing::Test {
 protected:
  UndoFileTest() { file_setup(directory_.path().c_str(), false, false, 16); }
  ~UndoFileTest() override { file_setup(".", false, true, 256); }

  // A piece of as many items, numbered on.
  void append(UndoFile &file, u32 items) {
    UndoItems piece;
    for (u32 i = 0; i < items; i++, next_++) {
      const std::string text = std::to_string(next_);
      piece.add(1, Bytes(reinterpret_cast<const u8 *>(text.data()), text.size()));
    }
    ASSERT_TRUE(ok(file.append(piece.bytes()))) << last_error().message;
  }
  static std::string text_of(const UndoItem &item) {
    return std::string(item.bytes.begin(), item.bytes.end());
  }
  static ls_status forward(UndoFile file, std::string *read) {
    read->clear();
    return code(file.forward([&](const UndoItem &item) {
      *read += text_of(item) + " ";
      return kOk;
    }));
  }
  static ls_status backward(const UndoFile &file, std::string *read) {
    read->clear();
    return code(file.backward([&](const UndoItem &item) {
      *read += text_of(item) + " ";
      return kOk;
    }));
  }
  void spoil(u64 at) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  TempDirectory directory_;
  const std::string path_ = directory_ / "undo";
  u32 next_ = 1;
  std::string read_;
};

// UFILE-2
TEST_F(UndoFileTest, is_read_in_both_directions) {
  UndoFile file(path_, kOwner);
  for (u32 items : {3, 1, 2}) append(file, items);
  EXPECT_EQ(forward(file, &read_), LS_OK);
  EXPECT_EQ(read_, "1 2 3 4 5 6 ");
  EXPECT_EQ(backward(UndoFile(path_, kOwner, file.end()), &read_), LS_OK);
  EXPECT_EQ(read_, "6 5 4 3 2 1 ");
}

// UFILE-1
TEST_F(UndoFileTest, what_lies_behind_the_end_is_not_read_and_written_over) {
  UndoFile file(path_, kOwner);
  append(file, 2);
  const UndoEnd end = file.end();
  append(file, 2);   // of which no end was noted
  spoil(end.bytes + sizeof(UndoPieceHead) + 1);
  UndoFile again(path_, kOwner, end);
  EXPECT_EQ(backward(again, &read_), LS_OK);
  EXPECT_EQ(read_, "2 1 ");
  append(again, 1);
  EXPECT_EQ(forward(again, &read_), LS_OK);
  EXPECT_EQ(read_, "1 2 5 ");
}

// UFILE-1
TEST_F(UndoFileTest, what_lies_before_the_end_and_does_not_verify_is_damage) {
  UndoFile file(path_, kOwner);
  append(file, 2);
  append(file, 2);
  for (u64 at = 0; at < file.end().bytes; at++) {
    spoil(at);
    EXPECT_NE(backward(file, &read_), LS_OK) << at;
    EXPECT_NE(forward(file, &read_), LS_OK) << at;
    spoil(at);
  }
  EXPECT_EQ(backward(file, &read_), LS_OK);
  std::filesystem::resize_file(path_, file.end().bytes - 1);
  EXPECT_EQ(backward(file, &read_), LS_CORRUPT) << "it has lost its last byte";
}

// UFILE-2
TEST_F(UndoFileTest, a_piece_of_another_owner_or_place_is_damage) {
  UndoFile file(path_, kOwner);
  append(file, 1);
  const UndoEnd first = file.end();
  append(file, 1);
  EXPECT_EQ(backward(UndoFile(path_, kOwner + 1, file.end()), &read_), LS_CORRUPT);
  // The second piece is a copy of the first.
  std::vector<char> bytes(first.bytes);
  std::fstream copy(path_, std::ios::in | std::ios::out | std::ios::binary);
  copy.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  copy.seekp(static_cast<std::streamoff>(first.bytes));
  copy.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  copy.close();
  ASSERT_EQ(file.end().bytes, 2 * first.bytes);
  EXPECT_EQ(backward(file, &read_), LS_CORRUPT);
}

}  // namespace
}  // namespace ls::test
