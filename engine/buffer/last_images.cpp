// last_images.cpp - the span of changes that undo dropped with their pages.
#include "buffer/last_images.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace ls {

DropLastImages::DropLastImages(BufferPool &pool) : pool_(pool) {
  DroppedImages &dropped = pool_.shared()->dropped_images;
  LS_ASSERT(dropped.now.load(std::memory_order_relaxed) == 0);
  dropped.from.store(~Gsn{0}, std::memory_order_relaxed);
  dropped.now.store(1, std::memory_order_release);
}

DropLastImages::~DropLastImages() {
  DroppedImages &dropped = pool_.shared()->dropped_images;
  dropped.to.store(pool_.log().last_gsn(), std::memory_order_relaxed);
  dropped.now.store(0, std::memory_order_release);
}

bool needs_no_last_image(PoolShared &pool, Gsn dirty_since) {
  DroppedImages &dropped = pool.dropped_images;
  if (!dropped.now.load(std::memory_order_acquire)) return false;
  LS_ASSERT(dirty_since != 0);
  Gsn from = dropped.from.load(std::memory_order_relaxed);
  while (dirty_since < from &&
         !dropped.from.compare_exchange_weak(from, dirty_since, std::memory_order_relaxed)) {
  }
  return true;
}

Gsn before_dropped_images(const PoolShared &pool, Gsn redo_gsn) {
  const DroppedImages &dropped = pool.dropped_images;
  LS_ASSERT(dropped.now.load(std::memory_order_acquire) == 0);
  const bool within = redo_gsn <= dropped.to.load(std::memory_order_relaxed);
  return within ? std::min(redo_gsn, dropped.from.load(std::memory_order_relaxed)) : redo_gsn;
}

}  // namespace ls
