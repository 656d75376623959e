/*
 * ls_key_datetime.c - date, time, timetz, timestamp, timestamptz, interval.
 *
 * All but interval are integers, the infinities being the least and the greatest of them;
 * timetz compares the time in UTC first, then the zone.
 *
 * An interval compares as its span with months of 30 days and days of 24 hours,
 * so different intervals are equal, and there is no way back.
 *
 * Between dates and timestamps of different types the comparison is by what the
 * session's time zone makes of local times.  That is no order of the local times
 * that a zone skips: as in a btree, scans by a timestamptz may or may not find them.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_type.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

/* ---- conversions */

/* What to answer when the greatest value that is not above compares to it as `cmp` says. */
static LsKeyFit
fit_of(int cmp)
{
	Assert(cmp <= 0);
	return cmp == 0 ? LS_KEY_EXACT : LS_KEY_BETWEEN;
}

static LsKeyFit
convert_date(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	Timestamp	wanted;
	DateADT		date;

	*converted = value;
	if (type != TIMESTAMPOID && type != TIMESTAMPTZOID)
		return LS_KEY_EXACT;

	wanted = DatumGetTimestamp(value);
	if (TIMESTAMP_NOT_FINITE(wanted))
	{
		*converted = DateADTGetDatum(TIMESTAMP_IS_NOBEGIN(wanted) ? DATEVAL_NOBEGIN
																  : DATEVAL_NOEND);
		return LS_KEY_EXACT;
	}

	date = (DateADT) (wanted / USECS_PER_DAY);
	if (date * USECS_PER_DAY > wanted)
		date--;
	if (type == TIMESTAMPTZOID)
	{
		/* No zone is as far as two days from UTC. */
		const DateADT first = Max(date - 2, DATETIME_MIN_JULIAN - POSTGRES_EPOCH_JDATE);

		for (date += 2; date >= first; date--)
		{
			int			cmp = date_cmp_timestamptz_internal(date, wanted);

			if (cmp <= 0)
			{
				*converted = DateADTGetDatum(date);
				return fit_of(cmp);
			}
		}
		*converted = DateADTGetDatum(DATEVAL_NOBEGIN);
		return LS_KEY_BETWEEN;
	}
	*converted = DateADTGetDatum(date);
	return fit_of(date_cmp_timestamp_internal(date, wanted));
}

/* A timestamp that was made of another type's value, with the overflow that this met. */
static LsKeyFit
fit_timestamp(Timestamp timestamp, int overflow, Datum *converted)
{
	if (overflow > 0)
		timestamp = END_TIMESTAMP - 1;
	else if (overflow < 0)
		TIMESTAMP_NOBEGIN(timestamp);
	*converted = TimestampGetDatum(timestamp);
	return overflow == 0 ? LS_KEY_EXACT : LS_KEY_BETWEEN;
}

static LsKeyFit
convert_timestamptz(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	int			overflow = 0;
	TimestampTz timestamp;

	if (type == DATEOID)
		timestamp = date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);
	else if (type == TIMESTAMPOID)
		timestamp = timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
	else
		timestamp = DatumGetTimestampTz(value);
	return fit_timestamp(timestamp, overflow, converted);
}

/* The local time of a finite instant; false: it is out of range. */
static bool
local_time(TimestampTz instant, Timestamp *local)
{
	struct pg_tm tm;
	fsec_t		fsec;
	int			zone;

	return timestamp2tm(instant, &zone, &tm, &fsec, NULL, NULL) == 0 &&
		tm2timestamp(&tm, fsec, NULL, local) == 0;
}

static LsKeyFit
convert_timestamp(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	TimestampTz wanted;
	Timestamp	low;
	Timestamp	high;

	if (type == DATEOID)
	{
		int			overflow = 0;
		Timestamp	timestamp = date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow);

		return fit_timestamp(timestamp, overflow, converted);
	}

	*converted = value;
	wanted = DatumGetTimestampTz(value);
	if (type != TIMESTAMPTZOID || TIMESTAMP_NOT_FINITE(wanted))
		return LS_KEY_EXACT;

	if (local_time(wanted, &low) && timestamp_cmp_timestamptz_internal(low, wanted) == 0)
	{
		*converted = TimestampGetDatum(low);
		return LS_KEY_EXACT;
	}

	/*
	 * The first of two instants with the same local time, which means the second
	 * one; or the end of the range.  Search: no zone is as far as two days from UTC.
	 */
	low = Max(wanted - 2 * USECS_PER_DAY, MIN_TIMESTAMP);
	high = Min(wanted + 2 * USECS_PER_DAY, END_TIMESTAMP - 1);
	if (timestamp_cmp_timestamptz_internal(low, wanted) > 0)
	{
		*converted = TimestampGetDatum(DT_NOBEGIN);
		return LS_KEY_BETWEEN;
	}
	if (timestamp_cmp_timestamptz_internal(high, wanted) <= 0)
		low = high;
	while (high - low > 1)
	{
		Timestamp	middle = low + (high - low) / 2;

		if (timestamp_cmp_timestamptz_internal(middle, wanted) <= 0)
			low = middle;
		else
			high = middle;
	}
	*converted = TimestampGetDatum(low);
	return fit_of(timestamp_cmp_timestamptz_internal(low, wanted));
}

/* ---- date, time, timestamp, timestamptz */

static void
encode_date(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put32(out, (uint32) DatumGetDateADT(value) ^ LS_KEY_SIGN32);
}

static Datum
decode_date(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return DateADTGetDatum((DateADT) (ls_key_get32(bytes) ^ LS_KEY_SIGN32));
}

static void
encode_timestamp(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put64(out, (uint64) DatumGetTimestamp(value) ^ LS_KEY_SIGN64);
}

static Datum
decode_timestamp(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return TimestampGetDatum((Timestamp) (ls_key_get64(bytes) ^ LS_KEY_SIGN64));
}

const LsKeyEncoding ls_key_date = {
	.width = sizeof(DateADT), .encode = encode_date, .decode = decode_date, .convert = convert_date
};
const LsKeyEncoding ls_key_time = {
	.width = sizeof(TimeADT), .encode = encode_timestamp, .decode = decode_timestamp
};
const LsKeyEncoding ls_key_timestamp = {.width = sizeof(Timestamp),
										.encode = encode_timestamp,
										.decode = decode_timestamp,
										.convert = convert_timestamp};
const LsKeyEncoding ls_key_timestamptz = {.width = sizeof(Timestamp),
										  .encode = encode_timestamp,
										  .decode = decode_timestamp,
										  .convert = convert_timestamptz};

/* ---- timetz */

static void
encode_timetz(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const TimeTzADT *time = DatumGetTimeTzADTP(value);

	ls_key_put64(out, (uint64) (time->time + time->zone * USECS_PER_SEC) ^ LS_KEY_SIGN64);
	ls_key_put32(out, (uint32) time->zone ^ LS_KEY_SIGN32);
}

static Datum
decode_timetz(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	TimeTzADT  *time = palloc0(sizeof(TimeTzADT));
	uint64		utc = ls_key_get64(bytes) ^ LS_KEY_SIGN64;

	time->zone = (int32) (ls_key_get32(bytes + 8) ^ LS_KEY_SIGN32);
	time->time = (TimeADT) (utc - (uint64) (time->zone * USECS_PER_SEC));
	return TimeTzADTPGetDatum(time);
}

const LsKeyEncoding ls_key_timetz = {.width = 12, .encode = encode_timetz, .decode = decode_timetz};

/* ---- interval: the span in microseconds takes 74 bits */

static void
encode_interval(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const Interval *interval = DatumGetIntervalP(value);
	int64		days = interval->month * INT64CONST(30) + interval->day;
	int128		span = (int128) days * USECS_PER_DAY + interval->time;

	ls_key_put16(out, (uint16) (span >> 64) ^ LS_KEY_SIGN16);
	ls_key_put64(out, (uint64) span);
}

const LsKeyEncoding ls_key_interval = {.width = 10, .encode = encode_interval};
