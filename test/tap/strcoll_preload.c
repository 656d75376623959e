/*
 * strcoll_preload.c - another version of the C library: strcoll_l() says the contrary
 *
 * - LS_STRCOLL=all: of all strings;
 * - LS_STRCOLL=odd: of two that begin with "odd".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

typedef int (*strcoll_function) (const char *, const char *, locale_t);

int
strcoll_l(const char *a, const char *b, locale_t locale)
{
	static strcoll_function real;
	const char *which = getenv("LS_STRCOLL");
	int			result;

	if (real == NULL)
		real = (strcoll_function) dlsym(RTLD_NEXT, "strcoll_l");
	result = real(a, b, locale);
	if (which != NULL &&
		(strcmp(which, "all") == 0 || (strncmp(a, "odd", 3) == 0 && strncmp(b, "odd", 3) == 0)))
		result = (result < 0) - (result > 0);
	return result;
}
