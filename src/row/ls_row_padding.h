/*
 * ls_row_padding.h - blank-padding compression: rows without their long runs of blanks.
 *
 * char(n) fills up with blanks what a value does not need, and a heap tuple has them
 * all.  They are taken out when a row is written, and put back when it is copied to a
 * slot.  Other bytes that repeat stay: blanks are padding and tend to remain what they
 * are, while a row of zeros (counters) would grow with the first of them that counts.
 *
 *	pairs of bytes: how many bytes follow as they are, how many blanks come behind
 *	them; so on until the row ends
 */
#ifndef LS_ROW_PADDING_H
#define LS_ROW_PADDING_H

/*
 * Write the data without its runs of blanks to `out`; returns how many bytes that
 * takes, 0 when it would spare too little or take more than `room`.
 */
extern uint32 ls_row_padding_compress(const uint8 *data, uint32 len, uint8 *out, uint32 room);

/* Bytes of the data with its blanks; 0: `in` is no such data. */
extern uint32 ls_row_padding_whole_len(const uint8 *in, uint32 len);

/* The data with its blanks, at `out`, which has room for ls_row_padding_whole_len() bytes. */
extern void ls_row_padding_decompress(const uint8 *in, uint32 len, uint8 *out);

#endif							/* LS_ROW_PADDING_H */
