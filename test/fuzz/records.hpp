// records.hpp - rounds and records of the log for fuzzers, made by the functions that the log's
// writers use.
#pragma once
#include <string>
#include <vector>

#include "btree/tree_redo.hpp"
#include "buffer/page_image.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/pages.hpp"
#include "index/index_log.hpp"
#include "txn/row_log.hpp"
#include "wal/log_record.hpp"

namespace ls::fuzz {

// The round of these chunks where *header, which moves on, says.
inline Buffer make_round(RoundHeader *header, Bytes chunks) {
  Buffer round(kRoundHeaderBytes + chunks.size());
  if (!chunks.empty()) std::memcpy(round.data() + kRoundHeaderBytes, chunks.data(), chunks.size());
  header->bytes = static_cast<u32>(round.size());
  store_round_header(*header, round.data());
  header->lsn += round.size();
  return round;
}

struct SampleOp {
  std::string name;
  u8 code;
  Buffer operands;
};

inline Buffer operands_of(const LogPacker &head, Bytes rest = {}) {
  Output out;
  out.bytes(head).bytes(rest);
  return out.buffer();
}

inline Buffer image_of(const Node *node) {
  const u8 *page = reinterpret_cast<const u8 *>(node);
  const u16 low = static_cast<u16>(node->slots_end() - sizeof(PageHeader));
  Output out;
  out.number(low).bytes({page + sizeof(PageHeader), low});
  return out.bytes({page + node->heap_start, kPageSize - node->heap_start}).buffer();
}

inline std::vector<SampleOp> sample_tree_ops() {
  Output truncate, child;
  truncate.number<u16>(20).bytes(bytes_of(big_endian(5140)));
  child.number<PageNo>(33).bytes(bytes_of(big_endian(7000)));
  const std::string key = big_endian(6000);
  const Bytes value = bytes_of(key);
  const Buffer change = operands_of(LogPacker().number(key.size()), bytes_of(key + "value"));
  const PagePtr leaf = sample_node(true, 9, [](u32 i) { return big_endian(5120 + i); }, 20);
  const FormatOperands format{LS_REL_TABLE, 1, {1, 2}};
  const RootOperands root{5, 2};
  const auto copy = [](Bytes bytes) { return Buffer(bytes.begin(), bytes.end()); };
  (void)value;
  return {{"format", kTreeFormat, copy(operand(format))},
          {"image", kTreeImage, image_of(leaf->node())},
          {"truncate", kTreeTruncate, truncate.buffer()},
          {"insert_child", kTreeInsertChild, child.buffer()},
          {"remove_child", kTreeRemoveChild, copy(operand(u16{1}))},
          {"root", kTreeRoot, copy(operand(root))},
          {"insert", kTreeInsert, change},
          {"overwrite", kTreeOverwrite, change}};
}

inline std::vector<SampleOp> sample_row_ops() {
  const std::string payload = "the payload of a row";
  const Buffer many = operands_of(LogPacker().number(5200).number(1),
                                  bytes_of("\5first\6second" + std::string(1, '\0')));
  const auto update = LogPacker().number(5121).number(2).byte(0).number(0).number(4);
  const auto remove = LogPacker().number(zigzag(5122)).number(zigzag(2)).number(zigzag(1));
  const auto restore = LogPacker().number(5121).number(500).number(1).byte(0).number(2).number(3);
  return {{"row", kRowInsert, operands_of(LogPacker().number(5190).number(1), bytes_of(payload))},
          {"rows", kRowInsertMany, many},
          {"update", kRowUpdate, operands_of(update, bytes_of(std::string("\0\0\0\0new!", 8)))},
          {"delete", kRowDelete, operands_of(LogPacker().number(5121).number(3).byte(1).byte(1)
                                                 .number(0))},
          {"remove", kRowRemove, operands_of(remove)},
          {"restore", kRowRestore, operands_of(restore, bytes_of(payload))},
          {"copied", kRowInsertCopied, operands_of(LogPacker().number(5191).number(499),
                                                   bytes_of(payload))},
          {"row_id_high", kRowIdHigh, operands_of(LogPacker().number(9000))}};
}

inline std::vector<SampleOp> sample_other_ops() {
  const std::string entry = big_endian(6001) + "rowid";
  const Bytes entry_bytes = bytes_of(entry);
  Output removal, dated, image;
  removal.number<u16>(200).number<u16>(3).number<u16>(9);
  dated.bytes(LogPacker().number(77)).bytes(removal);
  image.number(PageKind::kFree).number(kPageFormat).number(static_cast<u16>(sizeof(PageHeader)));
  std::vector<SampleOp> ops{
      {"entry", kIndexInsert, operands_of(LogPacker().number(entry.size()), entry_bytes)},
      {"entries_gone", kIndexRemove, removal.buffer()},
      {"dated", kIndexRemoveDated, dated.buffer()},
      {"stale", kIndexStale, {}},
      {"free_image", kPageImage, image.buffer()}};
  // Of free pages: a number; a list (trunk, next, count) with numbers; a cut.
  const PageNo numbers[] = {30, 0, 2, 40, 41, 42};
  for (u8 code = kOpSpace + 1; code <= kOpSpace + 7; code++) {
    const size_t bytes = code <= kOpSpace + 3 ? sizeof(PageNo) : sizeof numbers;
    const Bytes all = bytes_of(numbers).first(bytes);
    ops.push_back({"space" + std::to_string(code), code, Buffer(all.begin(), all.end())});
  }
  return ops;
}

inline std::vector<SampleOp> sample_ops() {
  std::vector<SampleOp> all = sample_tree_ops();
  for (auto *more : {&sample_row_ops, &sample_other_ops}) {
    for (SampleOp &op : more()) all.push_back(std::move(op));
  }
  return all;
}

struct SampleRound {
  Buffer chunks;
};

// Records of one slot, each packed behind the one before.
class SampleChunk {
 public:
  explicit SampleChunk(Gsn before) : before_(before), last_(before) {}
  void add(RecordKind kind, const LogPacker &numbers, Bytes body) {
    u8 head[kMaxRecordHeadBytes];
    const Bytes said = numbers;
    const u32 behind = static_cast<u32>(said.size() + body.size());
    const u32 n = store_record_head(kind, behind, last_ + 1, last_, head);
    records_.bytes({head, n}).bytes(said).bytes(body);
    last_++;
  }
  void add_op(RecordKind kind, const LogPacker &numbers, const SampleOp &op) {
    u8 head[kMaxOpHeadBytes];
    const u32 n =
        store_op_head(17, 5, op.code, static_cast<u32>(op.operands.size()), head);
    add(kind, numbers, Output().bytes({head, n}).bytes(op.operands));
  }
  // complete: GSN of the round.
  Buffer finish(u32 slot, Gsn complete) {
    u8 head[kMaxChunkHeadBytes];
    const u32 bytes = static_cast<u32>(records_.buffer().size());
    const u32 n = store_chunk_head({slot, bytes, before_}, complete, head);
    return Output().bytes({head, n}).bytes(records_).buffer();
  }
  Gsn last() const { return last_; }

 private:
  const Gsn before_;
  Gsn last_;
  Output records_;
};

// What is said of transactions and files.
inline void add_sample_words(SampleChunk *chunk, Tn tn) {
  const std::string path = "base/5/16500";
  FileRecord file{17, 1663, 5, 16500, -1, LS_REL_TABLE, 1, static_cast<u16>(path.size()), 1};
  chunk->add(RecordKind::kFile, LogPacker(), Output().bytes(bytes_of(file)).bytes(bytes_of(path)));
  chunk->add(RecordKind::kEra, LogPacker().number(tn).number(3), {});
  chunk->add_op(RecordKind::kFirstRow, LogPacker().number(tn), sample_row_ops()[0]);
  chunk->add_op(RecordKind::kRow, LogPacker(), sample_row_ops()[1]);
  chunk->add(RecordKind::kCommit, LogPacker().number(tn), bytes_of(path));
  chunk->add_op(RecordKind::kFirstRow, LogPacker().number(tn + 1), sample_row_ops()[2]);
  chunk->add(RecordKind::kTwoPhaseUndo, LogPacker().number(tn + 1).number(9).number(0),
             bytes_of(path));
  chunk->add(RecordKind::kTwoPhaseUndo, LogPacker().number(tn + 1).number(9).number(25),
             bytes_of(path));
  chunk->add(RecordKind::kTwoPhase, LogPacker().number(tn + 1).number(9), {});
  chunk->add(RecordKind::kTwoPhaseEnd, LogPacker().number(tn + 1).number(9).number(1), {});
  chunk->add_op(RecordKind::kFirstRow, LogPacker().number(tn + 2), sample_row_ops()[3]);
  chunk->add(RecordKind::kPrepared, LogPacker().number(tn + 2).number(10), {});
  chunk->add_op(RecordKind::kFirstRow, LogPacker().number(tn + 3), sample_row_ops()[0]);
  chunk->add(RecordKind::kAborted, LogPacker().number(tn + 3), {});
}

// Each as the first one of a log; or all behind each other.
inline std::vector<SampleRound> sample_rounds(bool together = false) {
  std::vector<SampleRound> rounds;
  Gsn complete = 0;
  for (u32 part = 0; part < 2; part++) {
    complete = together ? complete + 40 : 40;
    SampleChunk chunk(complete - 40);
    if (part == 0) {
      add_sample_words(&chunk, 100);
    } else {
      for (const SampleOp &op : sample_ops())
        chunk.add_op(op.code == kOpSpace + 7 ? RecordKind::kCut : RecordKind::kSystem, LogPacker(),
                     op);
    }
    rounds.push_back({chunk.finish(part, complete)});
  }
  return rounds;
}

}  // namespace ls::fuzz
