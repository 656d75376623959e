/*
 * other_module.c - a library, for shared_preload_libraries, that stands for what leanstore_accel
 * does not fit: other_module.interface = on: a leanstore_am with another version of the interface;
 * other_module.server = on: a server of another minor version.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static bool
chosen(const char *name)
{
	return strcmp(GetConfigOption(name, false, false), "on") == 0;
}

void
_PG_init(void)
{
	static const uint32 no_version = 0;

	if (chosen("other_module.interface"))
		*find_rendezvous_variable("leanstore_am") = unconstify(uint32 *, &no_version);
	if (chosen("other_module.server"))
	{
		struct config_generic *version = find_option("server_version_num", false, false, ERROR);

		*((struct config_int *) version)->variable += 1;
	}
}
