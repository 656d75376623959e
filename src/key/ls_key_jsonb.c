/*
 * ls_key_jsonb.c - jsonb, in the order of its btree operator class.
 *
 * The tokens of the document one after the other, each begun by its type; arrays
 * and objects say how many elements or pairs they have before the first of them,
 * as that is what is compared first.  With it, their end needs no token.
 *
 *	  null | string, text as a column | number, numeric as a column |
 *	  boolean, 0 or 1 | array, number of elements | object, number of pairs
 *
 * A document that is a single value is stored as an array, and compares as one:
 * among arrays of one element it comes first, and that is told by a byte behind
 * the number of elements of the outermost array.  (So an empty array comes
 * before all of them, as the operator class has it.)
 *
 * Strings compare under the database's collation, keys of objects as well.
 * Numbers do not tell their scale, so there is no way back.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

enum
{
	TYPE_NULL = 1, TYPE_STRING, TYPE_NUMBER, TYPE_BOOLEAN, TYPE_ARRAY, TYPE_OBJECT
};

typedef struct JsonbState
{
	LsKeyColumn string;
	LsKeyColumn number;
} JsonbState;

static void
put_scalar(const JsonbState *state, const JsonbValue *v, StringInfo out)
{
	switch (v->type)
	{
		case jbvNull:
			ls_key_put8(out, TYPE_NULL);
			break;
		case jbvString:
			{
				text	   *string = cstring_to_text_with_len(v->val.string.val, v->val.string.len);

				ls_key_put8(out, TYPE_STRING);
				ls_key_append(&state->string, PointerGetDatum(string), false, out);
				pfree(string);
				break;
			}
		case jbvNumeric:
			ls_key_put8(out, TYPE_NUMBER);
			ls_key_append(&state->number, NumericGetDatum(v->val.numeric), false, out);
			break;
		case jbvBool:
			ls_key_put8(out, TYPE_BOOLEAN);
			ls_key_put8(out, v->val.boolean);
			break;
		default:
			elog(ERROR, "unexpected type of a jsonb scalar: %d", v->type);
	}
}

static void
encode_jsonb(const LsKeyColumn *column, Datum value, StringInfo out)
{
	Jsonb	   *document = DatumGetJsonbP(value);
	JsonbIterator *iterator = JsonbIteratorInit(&document->root);
	bool		outermost = true;
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&iterator, &v, false)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		switch (token)
		{
			case WJB_BEGIN_ARRAY:
				ls_key_put8(out, TYPE_ARRAY);
				ls_key_put_int(out, v.val.array.nElems);
				if (outermost)
					ls_key_put8(out, v.val.array.rawScalar ? 1 : 2);
				break;
			case WJB_BEGIN_OBJECT:
				ls_key_put8(out, TYPE_OBJECT);
				ls_key_put_int(out, v.val.object.nPairs);
				break;
			case WJB_KEY:
			case WJB_VALUE:
			case WJB_ELEM:
				put_scalar(column->state, &v, out);
				break;
			default:			/* ends */
				break;
		}
		outermost = false;
	}
	if ((Pointer) document != DatumGetPointer(value))
		pfree(document);
}

static bool
prepare_jsonb(LsKeyColumn *column)
{
	JsonbState *state = palloc(sizeof(JsonbState));

	column->state = state;
	return ls_key_element_init(&state->string, &column->form, TEXTOID, DEFAULT_COLLATION_OID) &&
		ls_key_element_init(&state->number, &column->form, NUMERICOID, InvalidOid);
}

const LsKeyEncoding ls_key_jsonb = {.prepare = prepare_jsonb, .encode = encode_jsonb};
