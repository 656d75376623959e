// server_trace.hpp - what a server with leanstore.trace_values has written, made a trace.
//
// Its file, of src/row/ls_value_trace.c, has little-endian records of 64 bytes, in the order in
// which sessions appended them:
//
//   record  4  "LSV1"
//           4  crc32c of all bytes behind it
//           8  time in microseconds
//           8  hash of the stored bytes; 0 for a deletion
//           4  database     4  TOAST table     4  number of the value: the pointer to it
//           4  stored bytes
//           4  pid of the session     4  its transaction     4  command in that
//           1  operation: 1 put, 2 deletion; 3 bytes zero
//           8  start of the session
//
// The server stores each value under a new number.  A key is the chain of values of which each took
// the place of the one before.  The links are found, not told: an update stores a row's new values,
// then deletes its old ones, so a put and the deletion that follows in the same command, of one
// table and session, are one put of a key.  Several values of a row are paired by size.
#pragma once
#include "trace.hpp"

namespace ls::values {

// Each record is one of these, or it is the deletion that belongs to a replacement.
struct Conversion {
  u64 records = 0;
  u64 fresh = 0;      // puts that replace nothing
  u64 replacing = 0;  // puts that replace a value
  u64 deletes = 0;
  u64 left_out = 0;   // deletions of what was there before the trace, or is deleted already
  u64 sessions = 0, tables = 0;
};

// Whether the file was read; else *why says what is wrong with it, and where.
bool convert_server_trace(const std::string &path, Trace *trace, Conversion *conversion,
                          std::string *why);

}  // namespace ls::values
