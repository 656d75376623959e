// value_sink.cpp - to the file, then into the host's log.
#include "vlog/value_sink.hpp"

#include "base/check.hpp"
#include "buffer/pool_shared.hpp"
#include "wal/host_post.hpp"

namespace ls {

ValueSink::ValueSink(Ctx &ctx, FileSlot &file, bool write_out)
    : ctx_(ctx),
      file_(file),
      further_(file),
      in_host_log_(file.logged && ctx.pool->log().has_host_log()),
      write_out_(write_out && file.logged && !in_host_log_) {}

Status ValueSink::write(const PageRun &run, const u8 *pages, size_t bytes) {
  LS_ASSERT(bytes > 0 && bytes <= size_t{run.pages} * kPageSize &&
            bytes > size_t{run.pages - 1} * kPageSize);
  if (in_host_log_) return write_logged(run, pages, bytes);
  return file_write_range(further_.ref(), u64{run.first} * kPageSize, pages,
                          size_t{run.pages} * kPageSize, write_out_);
}

Status ValueSink::write_logged(const PageRun &run, const u8 *pages, size_t bytes) {
  LS_ASSERT(file_.key.owner == -1);
  const FilePin pin(file_, further_.ref().file_no & ~kFurtherFile);   // VWAL-4
  if (!pin.pinned()) return make_status(LS_NOT_FOUND);
  LS_TRY(file_write_range(further_.ref(), u64{run.first} * kPageSize, pages,   // VWAL-2
                          size_t{run.pages} * kPageSize));
  const auto insert = [&](const ls_host_log &host) {
    host.insert_values(&file_.key, run.first, pages, bytes);
  };
  return post_to_host(ctx_.pool->log(), std::ref(insert), ctx_.interrupt);
}

}  // namespace ls
