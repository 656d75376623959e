/*
 * ls_kept_memory.c - the memory of a session for plans (plan/) and executor states (executor/) that are kept.
 *
 * Both together take no more than the setting allows, but for the one used last of each.  Each may have a half,
 * and what the other leaves of its own.
 */
#include "ls.h"
#include "executor/ls_state.h"
#include "plan/ls_plan.h"

bool
ls_keeps_memory(void)
{
	return ls_kept_memory_kb > 0;
}

/* After something was kept. */
void
ls_bound_kept_memory(void)
{
	const Size	limit = (Size) ls_kept_memory_kb * 1024;

	if (likely(ls_plans_bytes() + ls_states_bytes() <= limit))
		return;
	ls_plans_shrink(Max(limit / 2, limit - Min(limit, ls_states_bytes())));
	ls_states_shrink(limit - Min(limit, ls_plans_bytes()));
}
