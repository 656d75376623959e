// changed_places.hpp - which pages of files change, for the host's log: tools of the host that read
// it know places of pages, and cannot read our rounds (docs/decisions/0045).
//
//   PLACE-1  Before a round is inserted into the host's log, that has the places of all pages which
//            the round's records change; once is enough until the host wants them named again
//            (Log::name_places).
//   PLACE-2  Before pages are cut off their file, the host's log has their places, durable
//            (buffer/file_cut.cpp).
//   PLACE-3  New files need none: the host's log has that they were made.
//   PLACE-4  A file ends where a block of the host does (grow_file in buffer/page_allocator.hpp):
//            pg_rewind copies no block that reaches beyond the end.
// The host wants places named again from each place on where its recovery may begin, and from the
// record on that says so; in between with each round.  So two servers that have the beginning of
// the host's log in common differ only in pages that one of them has named since the last such
// record there (pg_rewind).  And what two copies of a file differ in, when replay has completed
// both, are pages that are named between the places where their replay begins (incremental
// backups): what was changed before the checkpoint of the earlier copy is in that (RESTORE-1), a
// round in between names its pages, and what later ones change is redone (RESTORE-4).
#pragma once
#include <array>
#include <span>

#include "leanstore/engine.h"
#include "wal/log_record.hpp"

namespace ls {

struct RoundState;   // log_slot.hpp

// From a file's number to its relation.
class FileNames {
 public:
  virtual ~FileNames() = default;
  // False: no file has it any more.
  virtual bool find(FileNo file, ls_rel_key *relation) const = 0;
};

// By file and page, as the host wants them.
void sort_places(std::span<ls_page_place> places);

// One process' (or worker's) side, under the round mutex, with the host's log at hand.  Takes no
// memory after it was made.
class ChangedPlaces {
 public:
  explicit ChangedPlaces(const FileNames &names) : names_(names) {}
  // The next round.
  void begin(const RoundState &state);
  void add(const LogRecord &record);
  // Into the host's log, what was not inserted by add().
  void insert();

 private:
  struct Named {
    FileNo file;   // 0: none
    PageNo page;
  };
  struct File {
    FileNo number;   // 0: none
    ls_rel_key relation;
  };
  bool remember(FileNo file, PageNo page);
  const ls_rel_key *find(FileNo file);

  const FileNames &names_;
  u64 generation_ = 0;
  std::array<Named, 1024> named_{};   // by hash: what was named lately
  std::array<File, 64> files_{};      // a number is never another file's
  std::array<ls_page_place, 64> places_;
  size_t count_ = 0;
};

}  // namespace ls
