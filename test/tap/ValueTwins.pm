# ValueTwins: tables of large values in pairs, NAME_h on heap and NAME_l on leanstore, and what
# finds the first difference between the two.
#
#   my $twins = ValueTwins->new($node);
#   $twins->create_functions;
#   $twins->create_tables;             # settings of the columns are drawn by rand()
#   my @complaints = $twins->compare;  # must be empty
#
# The tables differ in how their values are kept; all have a key `id` and a small column `n`:
#   many     columns of many types, EXTENDED and EXTERNAL, indexes on expressions
#   main     STORAGE MAIN
#   plain    STORAGE PLAIN, rows of up to 7 kB
#   parted   three partitions, each with a toast_tuple_target of its own
#   unlog    unlogged
#   temp     temporary: exists in one session only, made by temporary_tables()
#
# Values are made in SQL, by value_bytes(seed, length, kind) and others, from three small numbers:
# so both twins get the same ones, and a seed repeats a run.
package ValueTwins;

use strict;
use warnings FATAL => 'all';

# Of each table: its columns of large values.  `most`: how large they may be.  `swapped`: SET ACCESS
# METHOD is for it.  `sizes`: pg_column_size of its values is the same on both.  It is not where a
# column of storage MAIN stays in a row of heap that leanstore's page does not take, and where the
# plan decides how long the header of a PLAIN value is.
our %TABLES = (
	many => {
		columns => { b => 'bytea', e => 'bytea', t => 'text', j => 'jsonb', a => 'text[]',
			c => 'value_pair' },
		swapped => 1, sizes => 1 },
	main => { columns => { m => 'text' }, swapped => 1, sizes => 0 },
	plain => { columns => { map { ("p$_" => 'text') } 1 .. 6 }, most => 1_100, swapped => 1,
		sizes => 0 },
	parted => { columns => { b => 'bytea', t => 'text' }, swapped => 0, sizes => 1 },
	unlog => { columns => { b => 'bytea', t => 'text' }, swapped => 1, sizes => 1 },
	temp => { columns => { b => 'bytea', t => 'text' }, swapped => 0, sizes => 1 });

our @LOGGED = qw(main many parted plain);
our @PERMANENT = (@LOGGED, 'unlog');

my %METHODS = (h => 'heap', l => 'leanstore');

sub new
{
	my ($class, $node) = @_;

	return bless { node => $node }, $class;
}

# TEXT for heap and for leanstore, TWIN replaced by the end of the table's name.  What does not
# depend on the twin comes once.
sub both
{
	my ($text) = @_;

	return $text unless $text =~ /TWIN/;
	return join '', map { $text =~ s/TWIN/$_/gr } qw(h l);
}

sub _pick { return $_[ rand @_ ]; }

# --- Values and digests -----------------------------------------------------

my $VALUES = q{
	CREATE TYPE value_pair AS (k int, v text);

	-- Bytes that no method compresses: above 100 kB they repeat, which is beyond its window.
	CREATE FUNCTION value_noise(seed int, len int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
		SELECT substring(string_agg(block, '' ORDER BY g), 1, len)
		FROM (SELECT string_agg(sha256(convert_to(seed || '.' || i, 'UTF8')), '' ORDER BY i)
				AS block
			FROM generate_series(0, least(len, 102400) / 32) i OFFSET 0) b,
			generate_series(0, len / 102400) g $$;
	-- kind 0: repeats, 1: noise, 2: half of each, 3: compresses a little, 4: characters of
	-- several bytes, in text
	CREATE FUNCTION value_bytes(seed int, len int, kind int) RETURNS bytea
		LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		RETURN CASE kind WHEN 1 THEN value_noise(seed, len)
			WHEN 2 THEN value_noise(seed, len - len / 2)
				|| convert_to(repeat('z', len / 2), 'UTF8')
			WHEN 3 THEN substring(convert_to(
				(SELECT string_agg(to_hex(i * seed), ';' ORDER BY i)
					FROM generate_series(1, least(len, 200000) / 2 + 1) i)
				|| repeat(md5(seed::text), len / 32), 'UTF8'), 1, len)
			ELSE substring(convert_to(repeat(md5(seed::text), len / 32 + 1), 'UTF8'), 1, len) END;
	END $$;
	CREATE FUNCTION value_text(seed int, len int, kind int) RETURNS text
		LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		RETURN CASE kind WHEN 4 THEN left(repeat(chr(945 + seed % 20) || '€' || md5(seed::text),
				len / 34 + 1), len)
			WHEN 0 THEN convert_from(value_bytes(seed, len, 0), 'UTF8')
			ELSE left(encode(value_bytes(seed, len * 3 / 4 + 1, kind), 'base64'), len) END;
	END $$;
	CREATE FUNCTION value_jsonb(seed int, len int, kind int) RETURNS jsonb
		LANGUAGE sql IMMUTABLE AS $$
		SELECT jsonb_build_object('seed', seed, 'value', value_text(seed, len, kind),
			'list', jsonb_build_array(len, kind, left(value_text(seed, len, kind), 40))) $$;
	CREATE FUNCTION value_array(seed int, len int, kind int) RETURNS text[]
		LANGUAGE sql IMMUTABLE AS $$
		SELECT array_agg(value_text(seed + i, len / 3 + i, kind) ORDER BY i)
		FROM generate_series(0, 2) i $$;
	CREATE FUNCTION value_pair(seed int, len int, kind int) RETURNS value_pair
		LANGUAGE sql IMMUTABLE AS $$
		SELECT ROW(seed, value_text(seed, len, kind))::value_pair $$;
	CREATE FUNCTION on_purpose() RETURNS int LANGUAGE plpgsql AS $$
		BEGIN RAISE 'on purpose'; END $$;
};

my $DIGESTS = q{
	-- Ends the script when heap and leanstore have answered differently.
	CREATE FUNCTION same(what text, heap text, leanstore text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF heap IS DISTINCT FROM leanstore THEN
			RAISE 'twins differ, %: heap %, leanstore %', what, left(heap, 1000),
				left(leanstore, 1000);
		END IF;
	END $$;
	-- An expression for what is compared of a row; detail 0: its values, 1: and how each is
	-- compressed, 2: and what each takes.
	CREATE FUNCTION digest_expression(rel regclass, detail int) RETURNS text
		LANGUAGE sql STABLE AS $$
		SELECT 'concat_ws(''|'', coalesce(n::text, ''null'')' || string_agg(format(', %1$L, '
			|| CASE WHEN atttypid IN ('bytea'::regtype, 'text'::regtype)
				THEN 'coalesce(md5(%1$I), ''null''), octet_length(%1$I)'
				ELSE 'coalesce(md5(%1$I::text), ''null'')' END
			|| CASE WHEN detail >= 1 THEN ', coalesce(pg_column_compression(%1$I), ''none'')'
				ELSE '' END
			|| CASE WHEN detail >= 2 THEN ', pg_column_size(%1$I)' ELSE '' END, attname), ''
			ORDER BY attname) || ')'
		FROM pg_attribute WHERE attrelid = rel AND attnum > 0 AND NOT attisdropped
			AND attlen = -1 $$;
	-- All rows of a table, in one line.  Not how they are compressed: VACUUM FULL may change that.
	CREATE FUNCTION table_digest(rel regclass) RETURNS text LANGUAGE plpgsql STABLE AS $$
	DECLARE
		result text;
	BEGIN
		EXECUTE format('SELECT count(*) || md5(coalesce(string_agg(id || %s, E''\n'' ORDER BY id),
			'''')) FROM %s', digest_expression(rel, 0), rel) INTO result;
		RETURN result;
	END $$;
	CREATE FUNCTION compare_twins(name text, detail int) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		differs record;
		result bigint;
	BEGIN
		EXECUTE format('SELECT count(*), max(bad.id) AS id, max(h) AS h, max(l) AS l FROM (
			SELECT id, h.d AS h, l.d AS l FROM (SELECT id, %s AS d FROM %I) h
			FULL JOIN (SELECT id, %s AS d FROM %I) l USING (id)
			WHERE h.d IS DISTINCT FROM l.d ORDER BY id LIMIT 1) bad',
			digest_expression((name || '_h')::regclass, detail), name || '_h',
			digest_expression((name || '_l')::regclass, detail), name || '_l') INTO differs;
		IF differs.count > 0 THEN
			RAISE 'twins differ, table %, first at key %: heap %, leanstore %', name, differs.id,
				differs.h, differs.l;
		END IF;
		EXECUTE format('SELECT count(*) FROM %I', name || '_l') INTO result;
		RETURN result;
	END $$;
};

# For a type: functions that have to be made for each, as a variable of PL/pgSQL has one.
my $OF_TYPE = q{
	-- A value that a variable holds outlives a change of its row.
	CREATE FUNCTION hold_TYPE(query text, change text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		held TYPE;
		before text;
	BEGIN
		EXECUTE query INTO held, before;
		EXECUTE change;
		PERFORM same('a variable after ' || left(change, 200), before, md5(held::text));
		RETURN coalesce(before, 'null');
	END $$;
	-- What is left of a cursor of keys and values.
	CREATE FUNCTION cursor_TYPE(rest refcursor) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		key int;
		held TYPE;
		result text := '';
	BEGIN
		LOOP
			FETCH rest INTO key, held;
			EXIT WHEN NOT FOUND;
			result := md5(result || key || coalesce(md5(held::text), 'null'));
		END LOOP;
		RETURN result;
	END $$;
};

sub create_functions
{
	my ($self) = @_;

	$self->{node}->safe_psql('postgres', $VALUES . $DIGESTS
		. join('', map { $OF_TYPE =~ s/TYPE/$_/gr } qw(bytea text jsonb)));
	return;
}

# --- Tables -----------------------------------------------------------------

# (Re)creates all but the temporary ones.  Both twins get the same draws.
sub create_tables
{
	my ($self) = @_;
	my ($first, $second) = map { _pick(qw(pglz lz4 default)) } 1 .. 2;
	my @targets = map { _pick(128, 500, 2040, 3000) } 1 .. 4;
	my $partitions = join '', map { "CREATE TABLE parted_TWIN_$_ PARTITION OF parted_TWIN FOR VALUES
		WITH (MODULUS 3, REMAINDER $_) WITH (toast_tuple_target = $targets[$_]);\n" } 0 .. 2;
	my $text = join('', map { "DROP TABLE IF EXISTS ${_}_TWIN;\n" } @PERMANENT)
	  . qq{
		CREATE TABLE many_TWIN (id int PRIMARY KEY, n int, b bytea COMPRESSION $first,
			e bytea STORAGE EXTERNAL, t text COMPRESSION $second, j jsonb COMPRESSION $second,
			a text[] STORAGE EXTERNAL, c value_pair) WITH (toast_tuple_target = $targets[3]);
		CREATE INDEX many_TWIN_md5 ON many_TWIN (md5(t));
		CREATE INDEX many_TWIN_left ON many_TWIN (left(t, 20), n);
		CREATE TABLE main_TWIN (id int PRIMARY KEY, n int,
			m text STORAGE MAIN COMPRESSION $first);
		CREATE TABLE plain_TWIN (id int PRIMARY KEY, n int, }
	  . join(', ', map { "p$_ text STORAGE PLAIN" } 1 .. 6)
	  . qq{);
		CREATE INDEX plain_TWIN_n ON plain_TWIN (n);
		CREATE TABLE parted_TWIN (id int PRIMARY KEY, n int, b bytea COMPRESSION $second,
			t text STORAGE EXTERNAL) PARTITION BY HASH (id);
		$partitions
		CREATE UNLOGGED TABLE unlog_TWIN (id int PRIMARY KEY, n int, b bytea, t text);
	};

	$self->{node}->safe_psql('postgres', _with_methods($text));
	return;
}

# SQL that makes the temporary twins, for the session that uses them.
sub temporary_tables
{
	return _with_methods('CREATE TEMPORARY TABLE temp_TWIN (id int PRIMARY KEY, n int,
		b bytea STORAGE EXTERNAL, t text);
		CREATE INDEX temp_TWIN_left ON temp_TWIN (left(t, 20));');
}

sub _with_methods
{
	my ($text) = @_;

	return join '', map { "SET default_table_access_method = $METHODS{$_};\n"
		. $text =~ s/TWIN/$_/gr . "RESET default_table_access_method;\n" } sort keys %METHODS;
}

# --- Comparison -------------------------------------------------------------

# SQL that fails where the twins differ.  How a value is compressed is compared where its size is: a
# row that fits heap's page and not half of it has values compressed that heap leaves as they are,
# and they stay so where they are copied to.
sub comparison
{
	my ($name) = @_;

	return "SELECT compare_twins('$name', " . ($TABLES{$name}{sizes} ? 2 : 0) . ");\n";
}

# SQL that fails where what decides how values are stored is not the same.
sub same_shapes
{
	my ($name) = @_;
	my ($heap, $leanstore) = map { "(SELECT string_agg(concat_ws(' ', c.relname, c.reloptions,
			a.attname, a.attstorage, a.attcompression), ',' ORDER BY c.relname, a.attnum)
		FROM (SELECT oid, replace(relname, '_$_', '') AS relname, reloptions FROM pg_class
			WHERE relname ~ '^${name}_$_(_\\d)?\$') c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)" }
	  qw(h l);

	return "SELECT same('shapes of $name', $heap, $leanstore);\n";
}

# The same for all tables and in any snapshot: only their values, for the twins change shape one
# after the other.
sub comparisons_of_values
{
	return join '', map { "SELECT compare_twins('$_', 0);\n" } @PERMANENT;
}

# Compares all twins but the temporary ones, read by scans and by keys; returns complaints.
sub compare
{
	my ($self) = @_;
	my @complaints;

	foreach my $name (@PERMANENT)
	{
		my ($status, undef, $error) = $self->{node}->psql('postgres', same_shapes($name)
			. comparison($name)
			. 'SET enable_seqscan = off; SET enable_bitmapscan = off;' . comparison($name)
			. "SELECT same('count by key of $name', (SELECT count(*)::text FROM ${name}_h
				WHERE id > 0), (SELECT count(*)::text FROM ${name}_l WHERE id > 0))",
			on_error_stop => 1);
		push @complaints, $error if $status != 0;
	}
	my (undef, @damage) = $self->{node}->leanstore_check;
	return (@complaints, @damage);
}

# What a snapshot must see of all twins for as long as it is kept.
sub digests
{
	return 'SELECT ' . join(" || ' ' || ", map { my $name = $_;
		map { "table_digest('${name}_$_')" } qw(h l) } @PERMANENT);
}

1;
