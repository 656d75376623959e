// node_shuffle.cpp - entries of equal length by column instead of by row, and back.
#include "btree/node_shuffle.hpp"

#include "base/check.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

constexpr u32 kSmallSlot = 4, kMostStride = 1024;
static_assert(kSmallSlot == kUniformSlotBytes && kSmallSlot == kDenseSlotBytes);

// The parts of a leaf.
struct Parts {
  u32 slot_bytes, slots_end, heap_start, heap_end;
  bool small_slots;

  explicit Parts(const Node &node)
      : slots_end(node.slots_end()),
        heap_start(node.heap_start),
        heap_end(node.heap_end()),
        small_slots(node.layout != NodeLayout::kSlots) {
    slot_bytes = slots_end - static_cast<u32>(sizeof(Node));
  }
  // Also: as many slots as the node says.
  bool fit(const Node &node) const {
    const u32 slot = small_slots ? kSmallSlot : static_cast<u32>(sizeof(Slot));
    return node.count * slot == slot_bytes && slots_end <= heap_start && heap_start <= heap_end &&
           heap_end <= kPageSize;
  }
  u32 bytes() const { return 2 + slots_end + (kPageSize - heap_start); }
};

// Bytes that follow each other in the heap again and again; 0: there are none.
u32 stride_of(const Node &node, u32 heap_bytes) {
  if (node.count == 0 || node.layout == NodeLayout::kSlots) return 0;
  const u32 stride = with_entries(node, [](const auto &entries) { return entries.heap_room(0); });
  return stride > 1 && stride <= kMostStride && stride <= heap_bytes ? stride : 0;
}

// n rows of `stride` bytes: column by column.
void to_columns(const u8 *rows, u32 n, u32 stride, u8 *out) {
  for (u32 column = 0; column < stride; column++) {
    for (u32 row = 0; row < n; row++) *out++ = rows[row * stride + column];
  }
}

void to_rows(const u8 *columns, u32 n, u32 stride, u8 *rows) {
  for (u32 column = 0; column < stride; column++) {
    for (u32 row = 0; row < n; row++) rows[row * stride + column] = *columns++;
  }
}

}  // namespace

u32 shuffle_leaf(const u8 *page, u8 *out) {
  const Node &node = *reinterpret_cast<const Node *>(page);
  const Parts parts(node);
  if (!parts.fit(node)) return 0;
  const u32 heap_bytes = parts.heap_end - parts.heap_start, stride = stride_of(node, heap_bytes),
            rows = stride != 0 ? heap_bytes / stride : 0;
  const u16 noted = static_cast<u16>(stride);
  std::memcpy(out, &noted, sizeof noted);
  u8 *at = out + sizeof noted;
  std::memcpy(at, page, sizeof(Node));
  at += sizeof(Node);
  if (parts.small_slots) {
    u32 differences[kMaxEntries], before = 0;
    for (u32 i = 0; i < node.count; i++) {
      u32 slot;
      std::memcpy(&slot, page + sizeof(Node) + i * kSmallSlot, sizeof slot);
      differences[i] = slot - before;
      before = slot;
    }
    to_columns(reinterpret_cast<const u8 *>(differences), node.count, kSmallSlot, at);
  } else {
    std::memcpy(at, page + sizeof(Node), parts.slot_bytes);
  }
  at += parts.slot_bytes;
  to_columns(page + parts.heap_start, rows, stride, at);
  at += rows * stride;
  const u32 rest = parts.heap_start + rows * stride;
  std::memcpy(at, page + rest, kPageSize - rest);
  LS_ASSERT(at + (kPageSize - rest) == out + parts.bytes());
  return parts.bytes();
}

bool unshuffle_leaf(std::span<const u8> shuffled, u8 *page) {
  u16 stride;
  if (shuffled.size() < sizeof stride + sizeof(Node)) return false;
  const u8 *at = shuffled.data();
  std::memcpy(&stride, at, sizeof stride);
  at += sizeof stride;
  std::memcpy(page, at, sizeof(Node));
  at += sizeof(Node);
  const Node &node = *reinterpret_cast<const Node *>(page);
  if (node.header.kind != PageKind::kLeaf) return false;
  const Parts parts(node);
  if (!parts.fit(node) || parts.bytes() != shuffled.size()) return false;
  if (parts.small_slots) {
    u32 slots[kMaxEntries], before = 0;
    to_rows(at, node.count, kSmallSlot, reinterpret_cast<u8 *>(slots));
    for (u32 i = 0; i < node.count; i++) before = slots[i] += before;
    std::memcpy(page + sizeof(Node), slots, parts.slot_bytes);
  } else {
    std::memcpy(page + sizeof(Node), at, parts.slot_bytes);
  }
  at += parts.slot_bytes;
  std::memset(page + parts.slots_end, 0, parts.heap_start - parts.slots_end);
  const u32 rows = stride != 0 ? (parts.heap_end - parts.heap_start) / stride : 0;
  to_rows(at, rows, stride, page + parts.heap_start);
  at += rows * stride;
  const u32 rest = parts.heap_start + rows * stride;
  LS_ASSERT(at + (kPageSize - rest) == shuffled.data() + shuffled.size());
  std::memcpy(page + rest, at, kPageSize - rest);
  return node.verify() == nullptr;
}

}  // namespace ls
