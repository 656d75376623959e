/*
 * ls_ddl_internal.h - what the files of ddl/ share.
 */
#ifndef LS_DDL_INTERNAL_H
#define LS_DDL_INTERNAL_H

#include "ls_ddl.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/utility.h"
#include "utils/rel.h"

/* ---- ls_index_enum.c */
typedef struct LsEnumPositions LsEnumPositions;

/* Around ALTER TYPE ... ADD VALUE; NULL: nothing to check afterwards. */
extern LsEnumPositions *ls_index_before_alter_enum(AlterEnumStmt *stmt);
extern void ls_index_after_alter_enum(const LsEnumPositions *before);

/* ---- ls_index_text.c */
#define LS_IMPLICIT_AM NULL		/* in IndexStmt.accessMethod: to be chosen */

/*
 * Does the CREATE INDEX at this place name an access method?  Also true when there is no such text.
 */
extern bool ls_index_text_names_am(const char *query, int location, int len);

/* The indexes of CREATE SCHEMA are created one by one later on, far from their text. */
extern void ls_index_mark_schema_elements(CreateSchemaStmt *schema, const char *query, int location,
										  int len);

/* ---- ls_index_choose.c */
static inline bool
ls_is_named(const char *name, const char *am)
{
	return name != NULL && strcmp(name, am) == 0;
}

/*
 * Are the indexes of this table leanstore indexes?  Those of a partition and of its parents have to
 * be of one access method, so what holds for the root holds for all.
 */
extern bool ls_index_table_suits(Relation rel);

/* Options that only btree has are a wish for btree. */
extern bool ls_index_options_suit(List *options);

/*
 * The access method of CREATE INDEX; of a constraint, in a column of that name or NULL; of what
 * CREATE TABLE makes.
 */
extern void ls_index_choose(IndexStmt *stmt, const PlannedStmt *pstmt, const char *query,
							ProcessUtilityContext context);
extern void ls_index_choose_for_constraint(Relation rel, const AlterTableStmt *stmt,
										   Constraint *constraint, const char *only_column,
										   const char *query);
extern void ls_index_choose_for_table(CreateStmt *stmt);

/* ---- ls_index_utility.c */

/* May the statement have to be changed?  Then it has to be a copy that the caller owns. */
extern bool ls_index_concerns(const Node *stmt);

/* What is left to do when the server has executed it. */
typedef struct LsIndexAfterwards
{
	List	   *statements;		/* to be executed */
	Oid			new_table;		/* has become a leanstore table */
} LsIndexAfterwards;

extern void ls_index_prepare_statement(PlannedStmt *pstmt, const char *query,
									   ProcessUtilityContext context, LsIndexAfterwards *after);
extern void ls_index_finish_statement(const LsIndexAfterwards *after, const char *query);

/* ---- ls_index_class_copy.c: a class of ours for each btree class of extensions and users */

/* Before CREATE OPERATOR CLASS ... USING leanstore: a copy that is in the way goes. */
extern void ls_index_make_way(const CreateOpClassStmt *stmt);

/* After a utility statement. */
extern void ls_index_after_class_statement(const Node *stmt);

/* ---- ls_index_replace.c */

/*
 * All leanstore indexes of the table become btree indexes; an error, if one can not.  Btree indexes
 * become leanstore indexes, where that can be: all, or with leanstore.replace_btree off those of
 * constraints, which can not name an access method.  build: they are built, for the server is not
 * about to.
 */
extern void ls_index_replace_ours(Oid table, bool build);
extern void ls_index_replace_btree(Oid table, bool build);

/*
 * For ls_move.c.  An index of another table of the same columns, built, which is to become an index
 * of this one: InvalidOid if it stays of its access method.  And a leanstore index in the place of
 * a btree index, which is empty.
 */
extern Oid	ls_index_make_like(Oid index, Relation table);
extern Oid	ls_index_replace_empty(Oid index);

/*
 * The keys that have a leanstore index.  As long as they are expected, an index that the server
 * makes for one of them becomes a leanstore index; returned are those expected before.
 */
extern List *ls_index_note_keys(Oid table, bool with_children, LOCKMODE lockmode);
extern List *ls_index_expect_keys(List *keys);

/* A new relation. */
extern void ls_index_take_over_key(Oid relid);

/*
 * The partitioned table is about to get its first partition: indexes that are leanstore indexes
 * there become leanstore indexes.
 */
extern void ls_index_follow_partition(Relation table, Oid partition_oid);

/* ---- ls_upgrade_notes.c */

/* After ALTER TYPE ... ADD VALUE in pg_upgrade's new cluster: positions as in the old one. */
extern void ls_upgrade_restore_positions(const AlterEnumStmt *stmt);

/* ---- ls_database_files.c */

/* A database that is closed is about to be copied: an error if that must not be. */
extern void ls_database_check_copy(Oid database, const char *name);

/* May files of a database that is closed be the engine's?  False is certain. */
extern bool ls_database_may_have_ours(Oid database);

#endif							/* LS_DDL_INTERNAL_H */
