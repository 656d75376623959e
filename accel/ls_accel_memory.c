/*
 * ls_accel_memory.c - the memory of a session for plans and executor states that are kept.
 *
 * Both together take no more than the setting allows, but for the one of each that was used last.
 * Each may have a half, and what the other leaves of its own.
 */
#include "ls_accel.h"

#include "ls_executor_cache.h"
#include "ls_plan.h"

bool
ls_accel_keeps_memory(void)
{
	return ls_accel_kept_memory_kb > 0;
}

/* After something was kept. */
void
ls_accel_bound_memory(void)
{
	const Size	limit = (Size) ls_accel_kept_memory_kb * 1024;

	if (likely(ls_plans_bytes() + ls_states_bytes() <= limit))
		return;
	ls_plans_shrink(Max(limit / 2, limit - Min(limit, ls_states_bytes())));
	ls_states_shrink(limit - Min(limit, ls_plans_bytes()));
}
