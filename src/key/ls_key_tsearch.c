/*
 * ls_key_tsearch.c - tsvector and tsquery, in the orders of their btree operator classes:
 * their sizes first, and much of the rest descending, which is complemented here.
 *
 * The comparison of a tsquery leaves out weights and prefix marks, so there is no
 * way back; of a tsvector there would be, but no query reads one from an index.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "miscadmin.h"
#include "tsearch/ts_type.h"
#include "tsearch/ts_utils.h"
#include "varatt.h"

static void
put_word(const char *word, int len, StringInfo out)
{
	int			start = out->len;

	ls_key_put(out, word, len);
	ls_key_frame(out, start);
}

/* ---- tsvector */

static void
encode_tsvector(const LsKeyColumn *column, Datum value, StringInfo out)
{
	TSVector	vector = DatumGetTSVector(value);
	WordEntry  *entry = ARRPTR(vector);

	ls_key_put_int(out, VARSIZE(vector));
	ls_key_put_int(out, vector->size);
	for (int i = 0; i < vector->size; i++, entry++)
	{
		CHECK_FOR_INTERRUPTS();
		ls_key_put8(out, entry->haspos ? 1 : 2);
		put_word(STRPTR(vector) + entry->pos, entry->len, out);
		if (entry->haspos)
		{
			WordEntryPos *positions = POSDATAPTR(vector, entry);
			int			n = POSDATALEN(vector, entry);

			ls_key_put_int(out, -n);
			for (int j = 0; j < n; j++)
				ls_key_put16(out, (uint16) ~(WEP_GETPOS(positions[j]) << 2 |
											 WEP_GETWEIGHT(positions[j])));
		}
	}
	if ((Pointer) vector != DatumGetPointer(value))
		pfree(vector);
}

const LsKeyEncoding ls_key_tsvector = {.encode = encode_tsvector};

/* ---- tsquery */

static void
put_node(const QueryItem *item, const char *words, StringInfo out)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();

	ls_key_put_int(out, -item->type);
	if (item->type == QI_OPR)
	{
		const QueryOperator *operator = &item->qoperator;

		/* An operator tells how many operands there are; the right one is stored first. */
		ls_key_put_int(out, -operator->oper);
		put_node(item + 1, words, out);
		if (operator->oper != OP_NOT)
			put_node(item + operator->left, words, out);
		if (operator->oper == OP_PHRASE)
			ls_key_put_int(out, -operator->distance);
	}
	else
	{
		const QueryOperand *operand = &item->qoperand;

		ls_key_put32(out, ~((uint32) operand->valcrc ^ LS_KEY_SIGN32));
		put_word(words + operand->distance, operand->length, out);
	}
}

static void
encode_tsquery(const LsKeyColumn *column, Datum value, StringInfo out)
{
	TSQuery		query = DatumGetTSQuery(value);

	ls_key_put_int(out, query->size);
	ls_key_put_int(out, VARSIZE(query));
	if (query->size != 0)
		put_node(GETQUERY(query), GETOPERAND(query), out);
	if ((Pointer) query != DatumGetPointer(value))
		pfree(query);
}

const LsKeyEncoding ls_key_tsquery = {.encode = encode_tsquery};
