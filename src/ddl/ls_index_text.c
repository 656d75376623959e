/*
 * ls_index_text.c - does the text of a statement name an access method?
 *
 * The server writes btree into a CREATE INDEX that names none.  Whether it was the user
 * is seen in the text only, which is read with the server's own scanner as far as to the
 * parenthesis behind the table's name.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"

#include "parser/scanner.h"
#include "utils/guc.h"

typedef struct Text
{
	core_yyscan_t scanner;
	core_yy_extra_type extra;
	core_YYSTYPE value;
	YYLTYPE		location;
} Text;

static int
keyword(const char *word)
{
	return ScanKeywordTokens[ScanKeywordLookup(word, &ScanKeywords)];
}

static int
next_token(Text *text)
{
	return core_yylex(&text->value, &text->location, text->scanner);
}

static void
open_text(Text *text, const char *query, int location, int len)
{
	const char *start = query + Max(location, 0);

	text->scanner = scanner_init(len > 0 ? pnstrdup(start, len) : start, &text->extra,
								 &ScanKeywords, ScanKeywordTokens);
}

/*
 * Go behind the table's name in the next CREATE INDEX.  *names_am: USING comes next.  False: there
 * is none.
 */
static bool
next_create_index(Text *text, bool *names_am)
{
	int			token;

	for (;;)
	{
		while ((token = next_token(text)) != keyword("create"))
			if (token == 0)
				return false;
		token = next_token(text);
		if (token == keyword("unique"))
			token = next_token(text);
		if (token == keyword("index"))
			break;
	}
	do
		token = next_token(text);
	while (token != 0 && token != keyword("on"));
	do
		token = next_token(text);
	while (token != 0 && token != '(' && token != keyword("using"));
	*names_am = token == keyword("using");
	return token != 0;
}

/*
 * The server has told of names that are too long when it read the text.  Returned is what
 * AtEOXact_GUC() wants at the end.
 */
static int
be_silent(void)
{
	static const char *const settings[] = {"client_min_messages", "log_min_messages"};
	const int	level = NewGUCNestLevel();

	for (size_t i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i], "error", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	return level;
}

bool
ls_index_text_names_am(const char *query, int location, int len)
{
	Text		text;
	bool		names_am;
	bool		found;
	const int	level = be_silent();

	open_text(&text, query, location, len);
	found = next_create_index(&text, &names_am);
	scanner_finish(text.scanner);
	AtEOXact_GUC(true, level);
	return !found || names_am;
}

void
ls_index_mark_schema_elements(CreateSchemaStmt *schema, const char *query, int location, int len)
{
	Text		text;
	bool		names_am;
	const int	level = be_silent();

	open_text(&text, query, location, len);
	foreach_ptr(Node, element, schema->schemaElts)
		if (IsA(element, IndexStmt) && next_create_index(&text, &names_am) && !names_am)
			((IndexStmt *) element)->accessMethod = LS_IMPLICIT_AM;
	scanner_finish(text.scanner);
	AtEOXact_GUC(true, level);
}
