/*
 * ls_key_enum.c - enums, by their sort position in pg_enum, a float4.
 *
 * A value keeps its position when others are added before, after and between,
 * until there is no float4 left between two: then ALTER TYPE ... ADD VALUE gives
 * new positions to all of them.  No encoding survives that (a value's OID tells
 * nothing either: an added one may be anywhere), so it must not happen while an
 * index contains the type.  ls_key_enums() tells which types those are.
 *
 * There is no way back, as a position does not tell a value without a search.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

static void
encode_enum(const LsKeyColumn *column, Datum value, StringInfo out)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, value);
	float4		position;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for enum value %u", DatumGetObjectId(value));
	position = ((Form_pg_enum) GETSTRUCT(tuple))->enumsortorder;
	ReleaseSysCache(tuple);
	ls_key_float4.encode(column, Float4GetDatum(position), out);
}

const LsKeyEncoding ls_key_enum = {.width = sizeof(float4), .encode = encode_enum};

/* Add the enums that values of a type contain to a list. */
static List *
add_enums(List *enums, Oid type)
{
	check_stack_depth();
	type = getBaseType(type);
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
			return list_append_unique_oid(enums, type);
		case TYPTYPE_RANGE:
			return add_enums(enums, get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return add_enums(enums, get_multirange_range(type));
		case TYPTYPE_COMPOSITE:
			{
				TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);

				for (int i = 0; i < desc->natts; i++)
					if (!TupleDescAttr(desc, i)->attisdropped)
						enums = add_enums(enums, TupleDescAttr(desc, i)->atttypid);
				ReleaseTupleDesc(desc);
				return enums;
			}
		default:
			return OidIsValid(get_element_type(type)) ? add_enums(enums, get_element_type(type))
													  : enums;
	}
}

List *
ls_key_enums(Oid type)
{
	return add_enums(NIL, type);
}
