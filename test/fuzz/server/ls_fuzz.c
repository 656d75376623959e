/*
 * ls_fuzz.c - libFuzzer in a backend: bytes from disk that src/ takes apart.
 *
 *	ls_fuzz_keys(arguments text[], cmps oid[], types oid[], collations oid[])
 *	ls_fuzz_rows(arguments text[], relations oid[])
 *
 * What they test is compiled into this module with clang's instrumentation; nothing of leanstore_am
 * is loaded.  The backend is one of a single user (launch): libFuzzer ends the process.
 *
 *	keys	which column, 1 | descending, 1 bit, nulls first, 1 bit | a key's column
 *	rows	which relation, 1 | the bytes of a row
 */
#include "postgres.h"

#include "key/ls_key.h"
#include "row/ls_row_internal.h"

#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/miscnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "varatt.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(ls_fuzz_keys);
PG_FUNCTION_INFO_V1(ls_fuzz_rows);

/* Of libFuzzer, as a library. */
extern int	LLVMFuzzerRunDriver(int *argc, char ***argv,
								int (*test_one) (const uint8_t *data, size_t size));

#define FUZZ_CHECK(expr) \
	do { \
		if (!(expr)) \
		{ \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expr); \
			abort(); \
		} \
	} while (0)

static MemoryContext test_context;

/*
 * Runs test(argument, data, size), which may raise an error.  The bytes are copied to a place of
 * their own, so that the address sanitizer sees what is beside them.
 */
static void
try_on(void (*test) (void *argument, const uint8 *data, size_t size), void *argument,
	   const uint8_t *data, size_t size)
{
	MemoryContext caller = MemoryContextSwitchTo(test_context);
	uint8	   *copy = malloc(size > 0 ? size : 1);

	FUZZ_CHECK(copy != NULL);
	memcpy(copy, data, size);
	PG_TRY();
	{
		test(argument, copy, size);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(test_context);
		error = CopyErrorData();
		FlushErrorState();
		FUZZ_CHECK(error->elevel == ERROR && error->message[0] != '\0');
		FUZZ_CHECK(error->sqlerrcode != ERRCODE_INTERNAL_ERROR);
	}
	PG_END_TRY();
	free(copy);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(test_context);
}

/* The directory, if the only argument is "seeds=directory"; else NULL. */
static const char *
seeds_directory(ArrayType *arguments)
{
	const char *first = TextDatumGetCString(array_get_element(PointerGetDatum(arguments), 1,
															  &(int) {1}, -1, -1, false, 'i',
															  &(bool) {false}));

	return strncmp(first, "seeds=", 6) == 0 ? first + 6 : NULL;
}

static void
write_seed(const char *directory, const char *name, const StringInfo seed)
{
	FILE	   *file = fopen(psprintf("%s/%s", directory, name), "wb");

	FUZZ_CHECK(file != NULL && fwrite(seed->data, 1, seed->len, file) == seed->len);
	FUZZ_CHECK(fclose(file) == 0);
}

static void
run(ArrayType *arguments, int (*test_one) (const uint8_t *data, size_t size))
{
	Datum	   *texts;
	char	  **argv;
	int			argc;

	test_context = AllocSetContextCreate(TopMemoryContext, "fuzz", ALLOCSET_DEFAULT_SIZES);
	deconstruct_array_builtin(arguments, TEXTOID, &texts, NULL, &argc);
	argv = palloc((argc + 2) * sizeof(char *));
	argv[0] = pstrdup("ls_fuzz");
	for (int i = 0; i < argc; i++)
		argv[i + 1] = TextDatumGetCString(texts[i]);
	argv[++argc] = NULL;
	/* does not come back when it has done what it should */
	FUZZ_CHECK(LLVMFuzzerRunDriver(&argc, &argv, test_one) == 0);
}

/* ---- keys */

#define MOST_COLUMNS 256

typedef struct FuzzColumn
{
	LsKeyColumn column;
	Oid			output;			/* of its type */
} FuzzColumn;

static int	columns = 0;
/* Each in four orders. */
static FuzzColumn column_of[MOST_COLUMNS][4];

/*
 * What the decoder takes is what the encoder writes, but where an encoding leaves out what equal
 * values differ in, and it is a value that its type's output function takes.
 */
static void
read_key(void *argument, const uint8 *data, size_t size)
{
	const FuzzColumn *fuzzed = argument;
	const LsKeyColumn *column = &fuzzed->column;
	bool		isnull;
	Datum		value;
	StringInfoData again;
	const Size	len = ls_key_column_length(column, data, size);

	FUZZ_CHECK(len <= size);
	if (len == 0 || !ls_key_is_reversible(column))
		return;
	value = ls_key_decode(column, data, len, &isnull);
	if (!isnull)
		(void) OidOutputFunctionCall(fuzzed->output, value);
	/* a sort key that does not belong to the string behind it is not looked at */
	if (OidIsValid(column->collation) && column->collation != C_COLLATION_OID)
		return;
	initStringInfo(&again);
	ls_key_append(column, value, isnull, &again);
	if ((Size) again.len != len || memcmp(again.data, data, len) != 0)
	{
		fprintf(stderr, "a key of %s (%u) is taken that its encoder does not write: %s\n",
				format_type_be(column->type), column->collation,
				isnull ? "null" : OidOutputFunctionCall(fuzzed->output, value));
		abort();
	}
}

static int
test_key(const uint8_t *data, size_t size)
{
	if (size >= 2)
		try_on(read_key, &column_of[data[0] % columns][data[1] % 4], data + 2, size - 2);
	return 0;
}

static void
add_column(Oid cmp, Oid type, Oid collation)
{
	for (int order = 0; order < 4; order++)
	{
		LsKeyColumn *column = &column_of[columns][order].column;

		memset(column, 0, sizeof(*column));
		column->form = ls_key_recorded_form(ls_key_choose_form(cmp, type, collation));
		column->form.thorough = true;
		if (!ls_key_column_init(column, cmp, type, collation, order & 1, (order & 2) != 0))
			return;
		getTypeOutputInfo(type, &column_of[columns][order].output, &(bool) {false});
	}
	columns++;
}

static const char *const literals[] = {
	"0", "-17", "2147483647", "1234567890123.000001", "NaN", "Infinity", "a", "", "abcabc\\000",
	"ok", "2020-02-29 12:34:56.789+03", "1 year 2 mons 3 days", "04:05:06-08", "{1,2,NULL}",
	"{\"x\",\"\"}",
	"{happy,sad}", "[1,5)", "(,)", "empty", "{[1,2),[4,5)}", "(1,\"a b\")", "(\"(2,x)\",\"{1.5}\")",
	"{\"a\": [1, \"x\", null, true], \"b\": {}}", "192.168.100.128/25", "::ffff:1.2.3.4/128",
	"08:00:2b:01:02:03", "08:00:2b:01:02:03:04:05", "10110", "(7,8)", "16/B374D848",
	"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "fat:2,4A cat:3 rat", "fat & (rat | cat:*)",
	"Stra\303\237e \303\251t\303\251 z", "$12.50", "1 2 3"
};

static void
write_key_seeds(const char *directory)
{
	for (int i = 0; i < columns; i++)
	{
		const Oid	type = column_of[i][0].column.type;
		FmgrInfo	input;
		Oid			function;
		Oid			parameter;

		getTypeInputInfo(type, &function, &parameter);
		fmgr_info(function, &input);
		for (int j = 0; j < lengthof(literals); j++)
		{
			ErrorSaveContext refused = {T_ErrorSaveContext};
			StringInfoData seed;
			Datum		value;

			if (!InputFunctionCallSafe(&input, pstrdup(literals[j]), parameter, -1,
									   (Node *) &refused, &value))
				continue;
			initStringInfo(&seed);
			appendStringInfoCharMacro(&seed, i);
			appendStringInfoCharMacro(&seed, j % 4);
			ls_key_append(&column_of[i][j % 4].column, value, false, &seed);
			write_seed(directory, psprintf("%d_%d", i, j), &seed);
		}
	}
}

Datum
ls_fuzz_keys(PG_FUNCTION_ARGS)
{
	Datum	   *cmps;
	Datum	   *types;
	Datum	   *collations;
	int			count;

	deconstruct_array_builtin(PG_GETARG_ARRAYTYPE_P(1), OIDOID, &cmps, NULL, &count);
	deconstruct_array_builtin(PG_GETARG_ARRAYTYPE_P(2), OIDOID, &types, NULL, &count);
	deconstruct_array_builtin(PG_GETARG_ARRAYTYPE_P(3), OIDOID, &collations, NULL, &count);
	MemoryContextSwitchTo(TopMemoryContext);
	for (int i = 0; i < count && columns < MOST_COLUMNS; i++)
		add_column(DatumGetObjectId(cmps[i]), DatumGetObjectId(types[i]),
				   DatumGetObjectId(collations[i]));
	fprintf(stderr, "%d columns of %d have encodings\n", columns, count);
	FUZZ_CHECK(columns > 0);
	if (seeds_directory(PG_GETARG_ARRAYTYPE_P(0)) != NULL)
		write_key_seeds(seeds_directory(PG_GETARG_ARRAYTYPE_P(0)));
	else
		run(PG_GETARG_ARRAYTYPE_P(0), test_key);
	PG_RETURN_VOID();
}

/* ---- rows */

static int	relations;
static Relation relation_of[MOST_COLUMNS];

static void
read_row(void *argument, const uint8 *data, size_t size)
{
	Relation	rel = argument;
	const ls_row row = {.row_id = 5, .writer_tn = 9, .data = data, .len = (uint32) size};
	HeapTupleData tuple;
	char	   *space;
	uint32		len;

	if (ls_row_wide_pointer(&row) != NULL)
		return;					/* of the server's TOAST */
	len = ls_row_tuple_len(&row, rel);
	/* as slots have it, behind which is nothing */
	FUZZ_CHECK(len < MaxAllocSize);
	space = malloc(len);
	FUZZ_CHECK(space != NULL);
	ls_row_decode(&row, rel, &tuple, space);
	FUZZ_CHECK(tuple.t_len == len);
	FUZZ_CHECK(HeapTupleHeaderGetNatts(tuple.t_data) <= RelationGetNumberOfAttributes(rel));
	FUZZ_CHECK(tuple.t_data->t_hoff <= len);
	free(space);
}

static int
test_row(const uint8_t *data, size_t size)
{
	if (size >= 1)
		try_on(read_row, relation_of[data[0] % relations], data + 1, size - 1);
	return 0;
}

/* Of two attributes, one of them null, with runs of blanks. */
static void
write_row_seeds(const char *directory)
{
	for (int flags = 0; flags < 8; flags++)
	{
		const uint16 head = 2 | (flags & 1 ? LS_HEAD_NULLS : 0) |
			(flags & 2 ? LS_HEAD_PADDING : 0) | (flags & 4 ? LS_HEAD_VARWIDTH : 0);
		StringInfoData seed;

		initStringInfo(&seed);
		appendStringInfoCharMacro(&seed, 1);
		appendBinaryStringInfo(&seed, &head, sizeof(head));
		if (flags & 1)
			appendStringInfoCharMacro(&seed, 2);
		appendBinaryStringInfo(&seed, "\4abcd\60\2ef\377\0\10\3abc\0", 17);
		write_seed(directory, psprintf("%d", flags), &seed);
	}
}

Datum
ls_fuzz_rows(PG_FUNCTION_ARGS)
{
	Datum	   *oids;

	deconstruct_array_builtin(PG_GETARG_ARRAYTYPE_P(1), OIDOID, &oids, NULL, &relations);
	FUZZ_CHECK(relations > 0 && relations <= MOST_COLUMNS);
	for (int i = 0; i < relations; i++)
		relation_of[i] = table_open(DatumGetObjectId(oids[i]), AccessShareLock);
	if (seeds_directory(PG_GETARG_ARRAYTYPE_P(0)) != NULL)
		write_row_seeds(seeds_directory(PG_GETARG_ARRAYTYPE_P(0)));
	else
		run(PG_GETARG_ARRAYTYPE_P(0), test_row);
	PG_RETURN_VOID();
}

/* ---- what rows need of the rest of src/ when they are written, or shown */

struct varlena *
ls_value_save(Relation rel, const struct varlena *value, const struct varlena *old, bool *stored)
{
	FUZZ_CHECK(!"a row is read only");
	return NULL;
}

LsShared   *ls_shared = &(LsShared) {0};

uint64_t
ls_store_full_xid(const ls_store *store, uint64_t tn)
{
	return tn;
}
