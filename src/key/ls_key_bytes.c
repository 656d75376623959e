/*
 * ls_key_bytes.c - types that compare as bytes: uuid, macaddr, macaddr8, bytea, bit strings.
 * And oidvector, which compares its length first.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/uuid.h"
#include "utils/varbit.h"
#include "varatt.h"

/* ---- fixed width */

static void
encode_fixed(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put(out, DatumGetPointer(value), column->encoding->width);
}

static Datum
decode_fixed(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return PointerGetDatum(memcpy(palloc(len), bytes, len));
}

const LsKeyEncoding ls_key_uuid = {.width = UUID_LEN,
								   .encode = encode_fixed,
								   .decode = decode_fixed};
const LsKeyEncoding ls_key_macaddr = {.width = sizeof(macaddr),
									  .encode = encode_fixed,
									  .decode = decode_fixed};
const LsKeyEncoding ls_key_macaddr8 = {.width = sizeof(macaddr8),
									   .encode = encode_fixed,
									   .decode = decode_fixed};

/* ---- bytea */

static void
encode_bytea(const LsKeyColumn *column, Datum value, StringInfo out)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(value);

	ls_key_put(out, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
	if ((Pointer) v != DatumGetPointer(value))
		pfree(v);
}

static Datum
decode_bytea(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	bytea	   *v = palloc(VARHDRSZ + len);

	SET_VARSIZE(v, VARHDRSZ + len);
	memcpy(VARDATA(v), bytes, len);
	return PointerGetDatum(v);
}

const LsKeyEncoding ls_key_bytea = {.encode = encode_bytea, .decode = decode_bytea};

/* ---- bit, varbit: the bytes, framed, and how many bits of the last one count */

static void
encode_bits(const LsKeyColumn *column, Datum value, StringInfo out)
{
	VarBit	   *bits = DatumGetVarBitP(value);
	int			start = out->len;
	int			bytes = VARBITBYTES(bits);

	ls_key_put(out, VARBITS(bits), bytes);
	ls_key_frame(out, start);
	ls_key_put8(out, (uint8) (VARBITLEN(bits) - (bytes - 1) * BITS_PER_BYTE));
	if ((Pointer) bits != DatumGetPointer(value))
		pfree(bits);
}

static Datum
decode_bits(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	Size		frame = ls_key_frame_length(bytes, len);
	VarBit	   *bits;
	Size		n;
	int			last;

	if (frame == 0 || len != frame + 1)
		ls_key_damaged();
	last = bytes[frame];
	bits = palloc0(VARBITTOTALLEN(0) + frame);
	n = ls_key_unframe(bytes, frame, VARBITS(bits));
	if (n == 0 ? last != BITS_PER_BYTE : last < 1 || last > BITS_PER_BYTE ||
		(VARBITS(bits)[n - 1] & (BITMASK >> last)) != 0)
		ls_key_damaged();
	VARBITLEN(bits) = n == 0 ? 0 : (int) (n - 1) * BITS_PER_BYTE + last;
	SET_VARSIZE(bits, VARBITTOTALLEN(VARBITLEN(bits)));
	return VarBitPGetDatum(bits);
}

const LsKeyEncoding ls_key_bits = {.encode = encode_bits, .decode = decode_bits};

/* ---- oidvector */

static void
encode_oidvector(const LsKeyColumn *column, Datum value, StringInfo out)
{
	oidvector  *oids = (oidvector *) PG_DETOAST_DATUM(value);

	if (oids->ndim != 1 || oids->dataoffset != 0 || oids->elemtype != OIDOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("array is not a valid oidvector")));
	ls_key_put32(out, (uint32) oids->dim1);
	for (int i = 0; i < oids->dim1; i++)
		ls_key_put32(out, oids->values[i]);
	if ((Pointer) oids != DatumGetPointer(value))
		pfree(oids);
}

static Datum
decode_oidvector(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	oidvector  *oids;

	if (len < 4 || len % 4 != 0 || len / 4 - 1 != ls_key_get32(bytes))
		ls_key_damaged();
	oids = buildoidvector(NULL, (int) (len / 4 - 1));
	for (int i = 0; i < oids->dim1; i++)
		oids->values[i] = ls_key_get32(bytes + 4 * (i + 1));
	return PointerGetDatum(oids);
}

const LsKeyEncoding ls_key_oidvector = {.encode = encode_oidvector, .decode = decode_oidvector};
