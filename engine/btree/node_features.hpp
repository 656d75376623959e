// node_features.hpp - what of the papers' page layout and tree a build has: all of it.  Benchmarks
// leave one out at a time to see what it brings (bench/run engine_features): -DLS_NODE_HINTS=0 and
// so on, for everything that looks into nodes.  Such builds cannot read each other's files.
#pragma once

#ifndef LS_NODE_HEADS
#define LS_NODE_HEADS 1
#endif
#ifndef LS_NODE_HINTS
#define LS_NODE_HINTS 1
#endif
#ifndef LS_NODE_PREFIX
#define LS_NODE_PREFIX 1
#endif
#ifndef LS_UNIFORM_LEAVES
#define LS_UNIFORM_LEAVES 1
#endif
#ifndef LS_DENSE_LEAVES
#define LS_DENSE_LEAVES 1
#endif
#ifndef LS_NODE_SHORT_SEPARATORS
#define LS_NODE_SHORT_SEPARATORS 1
#endif
#ifndef LS_CONTENTION_SPLIT
#define LS_CONTENTION_SPLIT 1
#endif
#ifndef LS_XMERGE
#define LS_XMERGE 1
#endif

namespace ls {

// the first bytes of a key in its slot
inline constexpr bool kWithHeads = LS_NODE_HEADS;
// sixteen heads in the header
inline constexpr bool kWithHints = LS_NODE_HINTS;
// what all keys begin with is stored once
inline constexpr bool kWithPrefix = LS_NODE_PREFIX;
// slots of a head alone where all entries are of one size
inline constexpr bool kWithUniformLeaves = LS_UNIFORM_LEAVES && LS_NODE_HEADS;
// no keys where they are numbers near each other
inline constexpr bool kWithDenseLeaves = LS_DENSE_LEAVES && LS_NODE_HEADS;
// separators end where they differ
inline constexpr bool kWithShortSeparators = LS_NODE_SHORT_SEPARATORS;
inline constexpr bool kWithContentionSplit = LS_CONTENTION_SPLIT;      // contention.hpp
inline constexpr bool kWithXMerge = LS_XMERGE;                         // tree_xmerge.cpp

}  // namespace ls
