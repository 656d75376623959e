#!/usr/bin/env python3
"""Draws the ways of data of docs/architecture.md: one SVG for each, beside this file.

A way is a list of steps from top to bottom; each stands in the lane of the code that does it.
.ci/tidy.py compares the pictures with this script, and the functions and files with the tree.
"""
import html
import os

# name: (title, lanes, steps); a step: (lane, function, file, what it does)
WAYS = {
    "insert": ("INSERT", ("PostgreSQL", "src/", "engine/"), [
        (0, "ExecInsert()", "nodeModifyTable.c", "calls the table access method"),
        (1, "insert_slot()", "ls_table_modify.c", "a heap tuple of the slot"),
        (1, "ls_toast_tuple()", "ls_table_toast.c", "large values go to the TOAST table"),
        (1, "ls_row_encode()", "ls_row.c", "the bytes of the row"),
        (1, "ls_next_row_id()", "ls_table_ids.c", "a row id, drawn from a range"),
        (1, "ls_writer()", "ls_xact.c", "the first write begins the transaction"),
        (2, "ls_row_insert()", "capi_row.cpp", "the file is in use for the call"),
        (2, "row_insert()", "row_insert.cpp", "a run of row ids is one undo entry"),
        (2, "LogAppender::reserve()", "log_appender.cpp", "log space, before any latch"),
        (2, "BTree::leaf_exclusive()", "tree.cpp", "the leaf is latched, split if full"),
        (2, "RowLeaf::insert()", "row_leaf.cpp", "the row is in its leaf"),
        (2, "log_insert()", "row_log.cpp", "one record, its GSN; page dirty; unlatched"),
        (0, "ExecInsertIndexTuples()", "execIndexing.c", "for each index"),
        (1, "ls_index_aminsert()", "ls_index_insert.c", "the normalized key"),
        (2, "index_insert()", "index_insert.cpp", "an entry, as the row before it"),
    ]),
    "lookup": ("Look-up by primary key", ("PostgreSQL", "src/", "engine/"), [
        (0, "IndexNext()", "nodeIndexscan.c", "asks for the next TID"),
        (1, "ls_index_amgettuple()", "ls_index_scan.c", "the first call of a scan by a whole key"),
        (1, "ls_index_look_up()", "ls_index_lookup.c", "values become a key, its entries a range"),
        (2, "IndexScan::next()", "index_scan.cpp", "the first entry of the range"),
        (2, "BTree::read_leaf()", "tree.hpp", "optimistic descent, no latch"),
        (2, "Node::copy_slice()", "node.cpp", "entries copied, then validated"),
        (1, "ls_index_look_up()", "ls_index_lookup.c", "the entry's row id is the TID"),
        (0, "index_fetch_heap()", "indexam.c", "asks for the row"),
        (1, "ls_index_fetch_tuple()", "ls_table_fetch.c", "a row that is alone, by its row id"),
        (1, "ls_fetch_visible()", "ls_fetch.c", "the snapshot as plain data"),
        (2, "row_fetch()", "row_fetch.cpp", "by row id"),
        (2, "BTree::lookup_near()", "tree.cpp", "in the leaf of the last row, or a descent"),
        (2, "find_version()", "row_read.cpp", "older ones from the version store"),
        (1, "ls_slot_store()", "ls_slot.c", "the row is in the slot"),
    ]),
    "commit": ("COMMIT, leanstore data only", ("PostgreSQL", "src/", "engine/"), [
        (0, "CommitTransaction()", "xact.c", "callbacks: PRE_COMMIT"),
        (1, "pre_commit()", "ls_xact.c", "what was seen in WAL becomes durable"),
        (2, "txn_reserve_commit()", "transaction.cpp", "space for the record"),
        (0, "RecordTransactionCommit()", "xact.c", "commit record in WAL, not flushed"),
        (0, "ProcArrayEndTransaction()", "procarray.c", "effects are visible"),
        (1, "commit()", "ls_xact.c", "callbacks: COMMIT"),
        (2, "txn_commit()", "transaction.cpp", "record and GSN; no longer active"),
        (0, "ResourceOwnerRelease()", "resowner.c", "locks are released"),
        (1, "release_callback()", "ls_xact.c", "the last wait before the answer"),
        (2, "LogAppender::wait_hardened()", "log_appender.cpp", "in line, or it has the turn"),
        (2, "LogWriter::gather()", "group_commit.cpp", "waits for its commit group"),
        (2, "LogWriter::collect()", "group_commit.cpp", "all log buffers, complete_gsn"),
        (2, "LogFiles::write()", "log_files.cpp", "one write, past the page cache"),
        (2, "LogWriter::finish()", "group_commit.cpp", "one sync: hardened; wakes the others"),
        (0, "EndCommand()", "dest.c", "the client hears of the commit"),
    ]),
    "page_miss": ("Page miss", ("tree", "buffer", "disk"), [
        (0, "BufferPool::resolve()", "resolve.cpp", "the swip is evicted"),
        (1, "BufferPool::read_evicted()", "resolve.cpp", "in the I/O stage? then wait there"),
        (1, "free_list_take()", "free_list.cpp", "page providers keep frames free"),
        (1, "claim_frame()", "pool.cpp", "the frame becomes the page's"),
        (1, "IoStageLock::insert()", "io_stage.cpp", "being read: others wait"),
        (1, "decompress_page()", "compressed_cache.cpp", "from the compressed page cache, or"),
        (2, "file_read_page()", "file.cpp", "one direct read of 4 KiB"),
        (1, "read_fault()", "page_kind.cpp", "checksum, then structure"),
        (1, "swizzle()", "resolve.cpp", "parent latched at the same version"),
        (1, "become_child()", "resolve.cpp", "fences fit? buffered changes are made"),
        (0, "Step::kRestart", "retry.hpp", "begins again, finds the page hot"),
    ]),
}

WIDTH, ROW, TOP, BOX = 360, 54, 62, 44
COLORS = ("#e8e2d4", "#d7e3ee", "#dfead9")


def text(x, y, size, words, more=""):
    return f'<text x="{x}" y="{y}" font-size="{size}"{more}>{html.escape(words)}</text>'


def draw(title, lanes, steps):
    """The SVG of a way."""
    height, width = TOP + ROW * len(steps) + 8, WIDTH * len(lanes)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" font-family="sans-serif" fill="#222">',
           f'<title>{html.escape(title)}</title>',
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
           'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           text(12, 22, 16, title, ' font-weight="bold"')]
    for lane, name in enumerate(lanes):
        out.append(f'<rect x="{lane * WIDTH + 4}" y="32" width="{WIDTH - 8}" '
                   f'height="{height - 36}" fill="{COLORS[lane]}" fill-opacity="0.35"/>')
        out.append(text(lane * WIDTH + 14, 50, 13, name, ' fill="#555"'))
    for i, (lane, function, file, what) in enumerate(steps):
        x, y = lane * WIDTH + 14, TOP + ROW * i
        if i > 0:
            before = steps[i - 1][0] * WIDTH + WIDTH / 2
            here = lane * WIDTH + WIDTH / 2
            out.append(f'<path d="M{before:g} {y - ROW + BOX}V{y - 5}H{here:g}V{y}" fill="none" '
                       'stroke="#555" marker-end="url(#tip)"/>')
        out.append(f'<rect x="{x}" y="{y}" width="{WIDTH - 28}" height="{BOX}" rx="4" '
                   f'fill="{COLORS[lane]}" stroke="#777"/>')
        out.append(text(x + 9, y + 18, 13, function, ' font-weight="bold"'))
        out.append(text(x + WIDTH - 37, y + 18, 10, file, ' fill="#555" text-anchor="end"'))
        out.append(text(x + 9, y + 35, 12, what))
    return "\n".join(out + ["</svg>"]) + "\n"


if __name__ == "__main__":
    for way, told in WAYS.items():
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), way + ".svg")
        with open(path, "w", encoding="utf-8") as picture:
            picture.write(draw(*told))
        print(path)
