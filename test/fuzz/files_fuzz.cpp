// files_fuzz.cpp - the small files of a store, of which the checksum is right: control file, eras,
// note of the last commits, and the state that a copy of the store is recovered from.
//
//   input   which file, 1 | its bytes; magic, version and checksum are made right
#include "base/crc32c.hpp"
#include "fuzz/fuzz.hpp"
#include "recovery/control_file.hpp"
#include "recovery/host_sync_point.hpp"
#include "recovery/restore_state.hpp"
#include "txn/tn_eras.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kSegmentBytes = 1 << 20;
enum File : u8 { kControl, kEras, kNote, kState };
constexpr u8 kFiles = 4;

const char *data_dir() { return directory().c_str(); }
std::string path_of(const char *name) { return directory() + "/" + name; }

// Each begins with magic 8 | version 4 | checksum 4 of all, with this field zero.
struct Head {
  u64 magic;
  u32 version;
  u32 crc;
};

const Buffer &sample(u8 which);

void seal(u8 which, Buffer *file) {
  Head head;
  if (file->size() < sizeof head) return;
  std::memcpy(&head, sample(which).data(), sizeof head);
  if (which == kControl && (*file)[8] == kOldControlVersion) head.version = kOldControlVersion;
  head.crc = 0;
  std::memcpy(file->data(), &head, sizeof head);
  head.crc = crc32c(0, file->data(), file->size());
  std::memcpy(file->data(), &head, sizeof head);
}

void read_control() {
  ControlFile control{}, again{};
  bool exists = false;
  Status status = control_read(data_dir(), &control, &exists);
  expect_refusal_or(status);
  if (!ok(status)) return;
  FUZZ_CHECK(exists && version_fits(control));
  expect_refusal_or(control_check_segments(control, kSegmentBytes, LS_INVALID));
  FUZZ_CHECK(ok(control_write(data_dir(), control)));
  FUZZ_CHECK(ok(control_read(data_dir(), &again, &exists)) && again.gsn == control.gsn);
}

void read_eras() {
  static TnEras eras;
  bool exists = false;
  const Status status = eras.read(data_dir(), &exists);
  expect_refusal_or(status);
  if (!ok(status)) return;
  FUZZ_CHECK(exists && eras.count() <= kMaxTnEras);
  for (Tn tn : {Tn{0}, Tn{100}, kMaxTn}) (void)eras.full_xid(tn);
  (void)eras.add(1000, 5);
  (void)eras.add(1001, 6);
  FUZZ_CHECK(eras.count() <= kMaxTnEras && ok(eras.write(data_dir())));
}

void read_note() {
  CommitsBehind commits;
  const Status status = commits_behind_note(data_dir(), kSegmentBytes, &commits);
  expect_refusal_or(status);
}

void read_state(const Buffer &file) {
  RestoreState state;
  const Status status = restore_state_unpack(file, &state);
  expect_refusal_or(status);
  if (ok(status)) FUZZ_CHECK(state.log.empty() || state.log_end > state.control.redo_lsn);
}

Buffer make_control() {
  ControlFile control{};
  control.run = control.redo_run = 2;
  control.redo_lsn = 4096;
  control.log_end = 8192;
  control.segment_bytes = kSegmentBytes;
  control.gsn = control.redo_gsn = 300;
  control.tn_floor = 50;
  control.next_file_no = 17;
  FUZZ_CHECK(ok(control_write(data_dir(), control)));
  return get_file(path_of("control"));
}

Buffer make_eras() {
  static TnEras eras;
  (void)eras.add(100, 1);
  (void)eras.add(200, 2);
  FUZZ_CHECK(ok(eras.write(data_dir())));
  return get_file(path_of("tn_eras"));
}

Buffer make_note() {
  FUZZ_CHECK(ok(host_sync_point_replace(data_dir(), {0, 0, 0, 4096, 2, 3})));
  return get_file(path_of("host_sync_point"));
}

Buffer make_state() {
  ControlFile control{};
  bool exists;
  (void)make_control();
  (void)make_eras();
  FUZZ_CHECK(ok(control_read(data_dir(), &control, &exists)));
  Buffer state;
  FUZZ_CHECK(ok(restore_state_pack(data_dir(), control, control.redo_lsn, &state)));
  return state;
}

const Buffer &sample(u8 which) {
  static const Buffer all[kFiles] = {make_control(), make_eras(), make_note(), make_state()};
  return all[which];
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (u8 which = 0; which < kFiles; which++)
    write(std::to_string(which).c_str(), Output().number(which).bytes(sample(which)));
}

void test_one(Input &input) {
  const u8 which = input.byte() % kFiles;
  const Bytes rest = input.rest();
  Buffer file(rest.begin(), rest.end());
  seal(which, &file);
  if (which == kState) {
    read_state(file);
    return;
  }
  const char *names[] = {"control", "tn_eras", "host_sync_point"};
  put_file(path_of(names[which]), file);
  switch (which) {
    case kControl: read_control(); break;
    case kEras: read_eras(); break;
    default: read_note(); break;
  }
}

}  // namespace ls::fuzz
