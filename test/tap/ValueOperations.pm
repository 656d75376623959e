# ValueOperations: random SQL that does the same to both twins of ValueTwins, drawn by rand().
#
#   my $operations = ValueOperations->new(largest => 2_000_000, directory => $dir);
#   my $text = $operations->script(transactions => 20, reshape => 'any');
#   my $client = $operations->client_script(client => 1, round => 1, transactions => 30);
#
# A script is for one session that has the tables to itself.  It stops at the first error; answers
# of both twins are compared within, by same().  An operation that fails on purpose does so where
# that does not stop the script.  Before each transaction the script echoes its label.
#
# A client's script runs beside others, on keys of its own and on shared ones.  Each of its
# transactions does the same to both twins, and both see the same:
#   - REPEATABLE READ has one snapshot for both, and what changes a row that another transaction
#     has changed since fails: it fails on heap, which comes first, before it reaches leanstore;
#   - READ COMMITTED changes both twins in one statement, which has one snapshot as well.
# So after a crash, too, both twins have the same rows.
package ValueOperations;

use strict;
use warnings FATAL => 'all';

use ValueTwins;

my $KEYS = 40;           # of each table; keys up to twice as many are free places
my $SHARED_KEYS = 5;    # of these, what all clients change
my $CLIENT_KEYS = 30;

# new(largest => BYTES, directory => where the server may write)
sub new
{
	my ($class, %options) = @_;

	return bless {
		largest => $options{largest},
		directory => $options{directory},
		used => [],       # values made so far: some are made again
		number => 0,      # of transactions
		done => {} }, $class;
}

# How often each kind of operation came.
sub done
{
	my ($self) = @_;

	return join ', ', map { "$_ $self->{done}{$_}" } sort keys %{ $self->{done} };
}

sub _pick { return $_[ rand @_ ]; }
sub _between { my ($low, $high) = @_; return $low + int(rand($high - $low + 1)); }

# --- Values -----------------------------------------------------------------

# Mostly small, often up to 64 kB, sometimes more; some just where the form of storage changes.
sub _length
{
	my ($self, $most) = @_;
	my $dice = rand;
	my $largest = $self->{largest};
	my $length =
		$dice < 0.45 ? exp(rand log 2_000)
	  : $dice < 0.60 ? _pick(125, 1_996, 2_032, 3_800, 3_992, 8_160, 65_536) + _between(-40, 40)
	  : $dice < 0.93 ? exp(log(2_000) + rand log 32)
	  : $dice < 0.997 ? exp(log(64_000) + rand log 16)
	  : exp(log(1_000_000) + rand(log($largest / 1_000_000)));

	$length = $most if defined $most && $length > $most;
	return int($length) || 1;
}

# SQL of a value for a column.
sub _value
{
	my ($self, $table, $column) = @_;
	my $type = $ValueTwins::TABLES{$table}{columns}{$column};
	my $most = $ValueTwins::TABLES{$table}{most};
	my $used = $self->{used};

	return "NULL::$type" if rand() < 0.04;
	my $value = @$used && rand() < 0.25 ? $used->[ rand @$used ]
	  : [ _between(1, 9_999), $self->_length, _pick(0, 0, 1, 1, 1, 2, 3, 4) ];
	push @$used, $value if @$used < 200;
	my ($seed, $length, $kind) = @$value;
	$length = $most if defined $most && $length > $most;
	# Characters of several bytes would be more than a row of plain values takes.
	$kind = 0 if defined $most && $kind == 4;
	my %function = (bytea => 'value_bytes', text => 'value_text', jsonb => 'value_jsonb',
		'text[]' => 'value_array', value_pair => 'value_pair');
	return "$function{$type}($seed, $length, $kind)";
}

sub _columns { my ($table) = @_; return sort keys %{ $ValueTwins::TABLES{$table}{columns} }; }

# A column, of one of the types if they are told.
sub _column
{
	my ($table, @types) = @_;
	my $columns = $ValueTwins::TABLES{$table}{columns};

	return _pick(grep { my $type = $columns->{$_}; !@types || grep { $_ eq $type } @types }
		_columns($table));
}

# Some columns with new values: pairs.
sub _some_values
{
	my ($self, $table) = @_;
	my @columns = grep { rand() < 0.5 } _columns($table);

	@columns = _column($table) unless @columns;
	return map { [ $_, $self->_value($table, $_) ] } @columns;
}

sub _key
{
	my ($self) = @_;
	my $client = $self->{client} // 0;

	return _between(1, $KEYS) unless $client;
	return rand() < 0.5 ? _between(1, $SHARED_KEYS) : 1_000 * $client + _between(1, $CLIENT_KEYS);
}

# Another key of the same owner.
sub _other_key
{
	my ($self, $key) = @_;

	return $key > 1_000 ? 1_000 * int($key / 1_000) + _between(1, 2 * $CLIENT_KEYS)
	  : _between(1, 2 * $KEYS);
}

# --- Changes: one statement, without its end --------------------------------

sub _insert
{
	my ($self, $table) = @_;
	my @values = $self->_some_values($table);
	my $key = $self->_key;

	return "INSERT INTO ${table}_TWIN (id, n, " . join(', ', map { $_->[0] } @values)
	  . ") SELECT $key, 1, " . join(', ', map { $_->[1] } @values)
	  . " WHERE NOT EXISTS (SELECT FROM ${table}_TWIN WHERE id = $key)";
}

sub _insert_many
{
	my ($self, $table) = @_;
	my $column = _column($table);
	my $key = $self->_key;
	my $rows = _between(2, 6);
	my $values = join ', ',
		map { '(' . ($key + $_) . ', ' . $self->_value($table, $column) . ')' } 0 .. $rows - 1;

	return "INSERT INTO ${table}_TWIN (id, n, $column) SELECT id, id, v FROM (VALUES $values)
		v (id, v) WHERE id NOT IN (SELECT id FROM ${table}_TWIN)";
}

sub _upsert
{
	my ($self, $table) = @_;
	my @values = $self->_some_values($table);
	my $nothing = !$self->{client} && rand() < 0.3;
	my $set = join ', ', map { "$_->[0] = excluded.$_->[0]" } @values;
	my $keep = rand() < 0.2 ? "n = ${table}_TWIN.n + 1" : $set;

	return "INSERT INTO ${table}_TWIN (id, n, " . join(', ', map { $_->[0] } @values)
	  . ') VALUES (' . join(', ', $self->_key, 1, map { $_->[1] } @values)
	  . ') ON CONFLICT (id) DO ' . ($nothing ? 'NOTHING' : "UPDATE SET $keep");
}

sub _update
{
	my ($self, $table) = @_;
	my $set = join ', ', map { "$_->[0] = $_->[1]" } $self->_some_values($table);

	return "UPDATE ${table}_TWIN SET $set WHERE id = " . $self->_key;
}

# What lies beside the values, in one row or in many; they must stay as they are.
sub _update_small
{
	my ($self, $table) = @_;
	my $key = $self->_key;
	my $to = rand() < 0.3 ? $key + _between(1, 8) : $key;

	return "UPDATE ${table}_TWIN SET n = coalesce(n, 0) + 1 WHERE id BETWEEN $key AND $to";
}

# A value that is made of itself, or of another row's.
sub _update_from
{
	my ($self, $table) = @_;
	my $column = _column($table, 'bytea', 'text');
	my $most = $ValueTwins::TABLES{$table}{most} // $self->{largest};
	my $key = $self->_key;
	my $other = $self->_other_key($key);
	my $new = _pick($column, "substring($column, 2)", "substring($column || $column, 1, $most)",
		"overlay($column PLACING substring($column, 1, 9) FROM 1000)",
		"(SELECT o.$column FROM ${table}_TWIN o WHERE o.id = $other)");
	# overlay() may add a few characters to a short value.
	$new = "substring($new, 1, $most)" if defined $ValueTwins::TABLES{$table}{most};

	return "UPDATE ${table}_TWIN SET $column = $new WHERE id = $key";
}

sub _update_key
{
	my ($self, $table) = @_;
	my $key = $self->_key;
	my $other = $self->_other_key($key);

	return "UPDATE ${table}_TWIN SET id = $other WHERE id = $key
		AND NOT EXISTS (SELECT FROM ${table}_TWIN WHERE id = $other)";
}

sub _delete
{
	my ($self, $table) = @_;
	my $key = $self->_key;
	my $to = rand() < 0.2 ? $key + _between(1, 5) : $key;

	return "DELETE FROM ${table}_TWIN WHERE id BETWEEN $key AND $to";
}

sub _merge
{
	my ($self, $table) = @_;
	my $column = _column($table);
	my ($key, $value) = ($self->_key, $self->_value($table, $column));

	return "MERGE INTO ${table}_TWIN t USING (SELECT $key AS id, $value AS v UNION ALL
			SELECT $key + 1, $value) s ON t.id = s.id
		WHEN MATCHED AND t.n % 5 = 0 THEN DELETE
		WHEN MATCHED AND t.n % 5 = 1 THEN UPDATE SET n = n + 1
		WHEN MATCHED THEN UPDATE SET $column = s.v, n = coalesce(n, 0) + 1
		WHEN NOT MATCHED THEN INSERT (id, n, $column) VALUES (s.id, 2, s.v)";
}

my %CHANGES = (insert => 6, insert_many => 3, upsert => 5, update => 8, update_small => 4,
	update_from => 4, update_key => 3, delete => 3, merge => 3);
my @CHANGES = map { ($_) x $CHANGES{$_} } sort keys %CHANGES;

sub _change
{
	my ($self, $table) = @_;
	my $kind = _pick(@CHANGES);
	my $method = "_$kind";

	$self->{done}{$kind}++;
	return $self->$method($table);
}

# --- Answers that are compared ----------------------------------------------

# QUERY, of one value, gives the same for both.
sub _same
{
	my ($what, $query) = @_;
	my ($heap, $leanstore) = map { $query =~ s/TWIN/$_/gr } qw(h l);
	(my $label = $what) =~ s/'/''/g;

	return "SELECT same('$label', ($heap)::text, ($leanstore)::text);\n";
}

sub _slices
{
	my ($self, $table) = @_;
	my $column = _column($table, 'bytea', 'text');
	my ($from, $length) = (_pick(1, 2, 1_990, 1_997, 3_993, int(exp(rand log 100_000))),
		_pick(1, 7, 1_996, 4_000, 70_000));
	my $slice = _pick("substring($column, $from, $length)", "substr($column, $from)",
		$ValueTwins::TABLES{$table}{columns}{$column} eq 'text' ? "left($column, $length)"
		: "substring($column FOR $length)");

	return _same("slices of $table.$column",
		"SELECT string_agg(id || ' ' || coalesce(md5($slice), ''), ',' ORDER BY id)
			FROM ${table}_TWIN");
}

sub _sorted
{
	my ($self, $table) = @_;
	my $column = _column($table);
	my $query = _pick(
		"SELECT md5(string_agg(v::text, '' ORDER BY v, id)) FROM (SELECT id, $column AS v
			FROM ${table}_TWIN ORDER BY $column OFFSET 0) s",
		"SELECT sum(c * c) FROM (SELECT count(*) AS c FROM ${table}_TWIN GROUP BY $column) s",
		"SELECT md5(string_agg(w::text, '' ORDER BY id)) FROM (SELECT id,
			lag($column) OVER (ORDER BY id DESC) AS w FROM ${table}_TWIN) s",
		"SELECT count(*) FROM ${table}_TWIN a JOIN ${table}_TWIN b USING ($column)");

	return _same("sorted or grouped $table.$column", $query);
}

# By the expression that is indexed.
sub _by_index
{
	my ($self, $table) = @_;
	my $value = $self->_value('many', 't');
	my $where = _pick("md5(t) = md5($value)", "left(t, 20) = left($value, 20)",
		"left(t, 20) > left($value, 20)");

	return 'SET enable_seqscan = off;'
	  . _same("many, $where", "SELECT string_agg(id || ' ' || md5(t) || octet_length(t), ','
		ORDER BY id) FROM many_TWIN WHERE $where")
	  . "RESET enable_seqscan;\n";
}

# What a change returns, of the values before and after it.
sub _returning
{
	my ($self, $table) = @_;
	my $column = _column($table);
	my ($key, $value) = ($self->_key, $self->_value($table, $column));
	my $change = _pick(
		"UPDATE ${table}_TWIN SET $column = $value WHERE id = $key",
		"DELETE FROM ${table}_TWIN WHERE id = $key");
	# The query beside the change sees what was there before it.
	my $query = "WITH change AS ($change RETURNING
			concat_ws(' ', 'was', md5(old.$column\::text), 'is', md5(new.$column\::text)) AS d),
		before AS (SELECT md5($column\::text) AS d FROM ${table}_TWIN WHERE id = $key)
		SELECT concat_ws(' ', (SELECT d FROM change), (SELECT d FROM before)) AS answer_TWIN"
	  . " \\gset\n";

	return ValueTwins::both($query) . "SELECT same('RETURNING of $table.$column', :'answer_h',
		:'answer_l');\n";
}

# A variable holds a value while its row changes or goes.
sub _hold
{
	my ($self, $table) = @_;
	my $column = _column($table, 'bytea', 'text');
	my $type = $ValueTwins::TABLES{$table}{columns}{$column};
	my $key = $self->_key;
	my $value = $self->_value($table, $column);
	my $change = _pick("UPDATE ${table}_TWIN SET $column = $value WHERE id = $key",
		"DELETE FROM ${table}_TWIN WHERE id = $key",
		"UPDATE ${table}_TWIN SET $column = NULL WHERE id = $key; UPDATE ${table}_TWIN
			SET $column = $value WHERE id = $key; DELETE FROM ${table}_TWIN WHERE id = $key");

	return _same("a held $table.$column", "SELECT hold_$type(
		'SELECT $column, md5($column\::text) FROM ${table}_TWIN WHERE id = $key', '$change')");
}

# A cursor that is open over changes, and beyond its transaction if it is WITH HOLD.
sub _cursor
{
	my ($self, $table, $held) = @_;
	my $column = _column($table, 'bytea', 'text');
	my $type = $ValueTwins::TABLES{$table}{columns}{$column};
	my $order = _pick('id', 'id + 0', "$column, id");
	my $text = ValueTwins::both("DECLARE c_TWIN CURSOR $held FOR SELECT id, $column
		FROM ${table}_TWIN ORDER BY $order;\n");

	$text .= "MOVE 3 FROM c_h;\nMOVE 3 FROM c_l;\n" if rand() < 0.5;
	$text .= ValueTwins::both($self->_change($table) . ";\n") foreach 1 .. 3;
	$text .= "COMMIT;\n" if $held;
	$text .= ValueTwins::both("DELETE FROM ${table}_TWIN WHERE id % 3 = 0;\n");
	$text .= 'SELECT same(' . "'rest of a cursor on $table.$column', cursor_$type('c_h'),
		cursor_$type('c_l'));\nCLOSE c_h;\nCLOSE c_l;\n";
	return $text;
}

# Rows of one twin go to the other, with their values as they are stored.
sub _cross
{
	my ($self, $table) = @_;
	my ($key, $columns) = ($self->_key, join ', ', 'n', _columns($table));
	my $other = $KEYS + _between(1, $KEYS);

	return join '', map { my ($to, $from) = @$_;
		"INSERT INTO ${table}_$to (id, $columns) SELECT $other, $columns FROM ${table}_$from
			WHERE id = $key AND NOT EXISTS (SELECT FROM ${table}_$to WHERE id = $other);\n" }
		[ 'h', 'l' ], [ 'l', 'h' ];
}

# Rows leave to a file and come back, those of one twin to the other.
sub _copy
{
	my ($self, $table) = @_;
	my $columns = join ', ', 'id', 'n', _columns($table);
	my $where = 'id % 3 = ' . _between(0, 2);
	my $format = _pick(qw(text binary csv));
	my $file = "$self->{directory}/copy_$table";

	return ValueTwins::both("COPY (SELECT $columns FROM ${table}_TWIN WHERE $where)
			TO '${file}_TWIN' (FORMAT $format);\nDELETE FROM ${table}_TWIN WHERE $where;\n")
	  . "COPY ${table}_h ($columns) FROM '${file}_l' (FORMAT $format);\n"
	  . "COPY ${table}_l ($columns) FROM '${file}_h' (FORMAT $format);\n";
}

# A statement that fails in its last row is taken back, and nothing else.
sub _failure
{
	my ($self, $table) = @_;
	my $column = _column($table);
	my $key = $self->_key;
	my $value = $self->_value($table, $column);
	my $statement = _pick(
		"INSERT INTO ${table}_TWIN (id, n, $column) SELECT 10000 + g,
			CASE WHEN g = 4 THEN on_purpose() END, $value FROM generate_series(1, 4) g",
		"WITH first AS (UPDATE ${table}_TWIN SET $column = $value WHERE id = $key) SELECT
			on_purpose()",
		"UPDATE ${table}_TWIN SET $column = $value, n = CASE WHEN id = (SELECT max(id)
			FROM ${table}_TWIN) THEN on_purpose() ELSE n END");

	return ValueTwins::both("SAVEPOINT failure;\n\\set ON_ERROR_STOP 0\n$statement;\n"
		. "\\set state :SQLSTATE\n\\set ON_ERROR_STOP 1\nROLLBACK TO failure;\n"
		. "SELECT same('fails on purpose', :'state', CASE WHEN :'state' = '00000' THEN '00000'
			ELSE 'P0001' END);\n");
}

my %ANSWERS = (slices => 4, sorted => 2, by_index => 1, returning => 2, hold => 3, cross => 2,
	copy => 1, failure => 2, cursor => 2);
my @ANSWERS = map { ($_) x $ANSWERS{$_} } sort keys %ANSWERS;

sub _answer
{
	my ($self, $table) = @_;
	my $kind = _pick(@ANSWERS);
	my $method = "_$kind";

	$self->{done}{$kind}++;
	return $self->$method($table, '');
}

# --- Tables that change their shape -----------------------------------------

# These leave an older snapshot what it sees.
sub _reshape_kept
{
	my ($self, $table) = @_;
	my $parted = $table eq 'parted';
	my $column = _column($table);
	my $storage = $table eq 'main' || $table eq 'plain' ? undef : _pick(qw(EXTERNAL EXTENDED));
	my $target = _pick(128, 1_000, 3_000);
	my $place = _pick(qw(pg_default twins_space));

	return _pick(
		"ALTER TABLE ${table}_TWIN ALTER $column SET COMPRESSION " . _pick(qw(pglz lz4 default)),
		$parted ? 'VACUUM parted_TWIN'
			: "ALTER TABLE ${table}_TWIN SET (toast_tuple_target = $target)",
		"VACUUM ${table}_TWIN", "VACUUM FULL ${table}_TWIN", "VACUUM FULL ${table}_TWIN",
		$parted ? 'CLUSTER parted_TWIN_1 USING parted_TWIN_1_pkey'
			: "CLUSTER ${table}_TWIN USING ${table}_TWIN_pkey",
		$storage ? "ALTER TABLE ${table}_TWIN ALTER $column SET STORAGE $storage"
			: "ANALYZE ${table}_TWIN",
		($parted ? 'ALTER TABLE parted_TWIN_0' : "ALTER TABLE ${table}_TWIN")
			. " SET TABLESPACE $place");
}

# Both twins or none, where the server may be killed: a table that has another setting, or was
# written anew alone, compresses what its twin leaves as it is.
sub _reshape_together
{
	my ($self, $table) = @_;
	my $shape = $self->_reshape_kept($table);

	return ValueTwins::both("$shape;\n") if $shape =~ /^VACUUM (?!FULL)/;
	$shape = $table eq 'parted' ? 'CLUSTER parted_TWIN_1 USING parted_TWIN_1_pkey'
	  : "CLUSTER ${table}_TWIN USING ${table}_TWIN_pkey"
	  if $shape =~ /^VACUUM FULL/;
	return "BEGIN;\n" . ValueTwins::both("$shape;\n") . "COMMIT;\n";
}

# These give the table new rows.
sub _reshape_new
{
	my ($self, $table) = @_;
	my $column = _column($table, 'text');
	my $number = _pick('bigint', 'int');
	# A default lies in pg_attribute, which has no TOAST table.
	my $value = 'value_text(' . join(', ', _between(1, 999), _between(1, 1_500), 1) . ')';
	my @swap = !$ValueTwins::TABLES{$table}{swapped} ? () : (
		"ALTER TABLE ${table}_h SET ACCESS METHOD leanstore;
		ALTER TABLE ${table}_l SET ACCESS METHOD heap",
		ValueTwins::both($self->_change($table) . ";\n")
			. ValueTwins::comparison($table)
			. "ALTER TABLE ${table}_h SET ACCESS METHOD heap;
			ALTER TABLE ${table}_l SET ACCESS METHOD leanstore");
	my @choice = (
		["ALTER TABLE ${table}_TWIN ALTER n TYPE $number"],
		["ALTER TABLE ${table}_TWIN ALTER $column TYPE varchar",
			"ALTER TABLE ${table}_TWIN ALTER $column TYPE text"],
		["ALTER TABLE ${table}_TWIN ALTER $column TYPE text USING $column || ''"],
		["ALTER TABLE ${table}_TWIN ADD extra text DEFAULT $value",
			"UPDATE ${table}_TWIN SET n = 0 WHERE id % 2 = 0",
			"UPDATE ${table}_TWIN SET extra = extra || id WHERE id % 3 = 0",
			"ALTER TABLE ${table}_TWIN DROP extra",
			"UPDATE ${table}_TWIN SET n = 1 WHERE id % 5 = 0"],
		["TRUNCATE ${table}_TWIN", map { $self->_insert_many($table) } 1 .. 4],
		@swap ? ([@swap], [@swap], [@swap]) : ());

	# No room for another column beside full plain ones.
	splice @choice, 3, 1 if $table eq 'plain';
	return map { ValueTwins::both("$_;\n") } @{ _pick(@choice) };
}

# One or a few statements; WHAT: 'kept' or 'any'.
sub _reshape
{
	my ($self, $what) = @_;
	my $table = _pick(@ValueTwins::PERMANENT);

	$self->{done}{"reshape_$what"}++;
	return ValueTwins::both($self->_reshape_kept($table) . ";\n")
	  if $what eq 'kept' || rand() < 0.4;
	my @statements = $self->_reshape_new($table);
	return join('', @statements) if rand() < 0.4;
	return "BEGIN;\n" . join('', @statements) . _pick("COMMIT;\n", "COMMIT;\n", "ROLLBACK;\n");
}

# --- Scripts ----------------------------------------------------------------

# Changes and answers, some within savepoints.
sub _body
{
	my ($self, @tables) = @_;
	my $text = '';

	foreach my $i (1 .. _between(1, 4))
	{
		my $table = _pick(@tables);
		my $step = rand() < 0.7 ? ValueTwins::both($self->_change($table) . ";\n")
		  : $self->_answer($table);
		my $dice = rand;
		$text .= $dice < 0.15 ? "SAVEPOINT s$i;\n${step}ROLLBACK TO s$i;\n"
		  : $dice < 0.30 ? "SAVEPOINT s$i;\n${step}RELEASE s$i;\n"
		  : $dice < 0.40 ? "SAVEPOINT s$i;\n$step"
		  : $step;
	}
	return $text;
}

# One transaction, or what cannot be in one.
sub _transaction
{
	my ($self, $reshape) = @_;
	my $dice = rand;

	return $self->_reshape($reshape) if $dice < ($reshape eq 'any' ? 0.3 : 0.12);
	if ($dice > 0.95)
	{
		$self->{done}{cursor_with_hold}++;
		return "BEGIN;\n" . $self->_cursor(_pick(@ValueTwins::PERMANENT), 'WITH HOLD');
	}
	my $begin = 'BEGIN' . _pick('', '', ' ISOLATION LEVEL REPEATABLE READ') . ";\n";
	if ($dice > 0.85)
	{
		my $table = _pick(@ValueTwins::LOGGED);
		$self->{done}{prepared}++;
		return $begin . $self->_body(@ValueTwins::LOGGED) . "PREPARE TRANSACTION 'values';\n"
		  . $self->_slices($table) . ValueTwins::comparison($table)
		  . _pick('COMMIT', 'ROLLBACK') . " PREPARED 'values';\n";
	}
	return $begin . $self->_body(@ValueTwins::PERMANENT, 'temp')
	  . _pick("COMMIT;\n", "COMMIT;\n", "COMMIT;\n", "ROLLBACK;\n");
}

# script(transactions => N, reshape => 'kept' or 'any'): what one session does.
sub script
{
	my ($self, %options) = @_;
	my $text = "SET lock_timeout = '60s';\nSET statement_timeout = '180s';\n"
	  . ValueTwins::temporary_tables();

	delete $self->{client};
	foreach (1 .. $options{transactions})
	{
		$self->{number}++;
		$text .= "\\echo transaction $self->{number}\n" . $self->_transaction($options{reshape});
	}
	return $text . ValueTwins::comparison('temp') . "SELECT leanstore_check('temp_l');\n";
}

# Both twins in one statement.
sub _at_once
{
	my ($self, $table) = @_;
	my $change = $self->_change($table);
	my ($heap, $leanstore) = map { $change =~ s/TWIN/$_/gr } qw(h l);

	return "WITH h AS ($heap), l AS ($leanstore) SELECT;\n";
}

# client_script(client => NUMBER, round =>, transactions => N): of one of several clients.
sub client_script
{
	my ($self, %options) = @_;
	my ($client, $round) = @options{qw(client round)};
	my $text = "SET deadlock_timeout = '50ms';\nSET statement_timeout = '180s';\n";

	local $self->{client} = $client;
	foreach my $i (1 .. $options{transactions})
	{
		my $name = "$round $client $i";
		my $repeatable = rand() < 0.6;
		if ($client == 1 && rand() < 0.1)
		{
			$text .= $self->_reshape_together(_pick(@ValueTwins::PERMANENT));
			next;
		}
		my $synchronous = _pick(qw(on on off));
		$text .= "SET synchronous_commit = $synchronous;\n"
		  . 'BEGIN ISOLATION LEVEL ' . ($repeatable ? 'REPEATABLE READ' : 'READ COMMITTED') . ";\n"
		  . "INSERT INTO journal VALUES ('$name');\n";
		my $prepared = rand() < 0.15;
		foreach (1 .. _between(1, 3))
		{
			my $table = _pick($prepared ? @ValueTwins::LOGGED : @ValueTwins::PERMANENT);
			my $step = $repeatable ? ValueTwins::both($self->_change($table) . ";\n")
			  : $self->_at_once($table);
			$text .= rand() < 0.2 ? "SAVEPOINT s;\n${step}ROLLBACK TO s;\n" : $step;
		}
		$text .= "\\echo ends $name, synchronous_commit $synchronous\n"
		  . ($prepared ? "PREPARE TRANSACTION '$name';\n" . _pick('COMMIT', 'COMMIT', 'ROLLBACK')
			. " PREPARED '$name';\n"
		  : _pick("COMMIT;\n", "COMMIT;\n", "COMMIT;\n", "ROLLBACK;\n"));
	}
	return $text;
}

# A client that only looks: every snapshot has the same rows in both twins, once and again.
sub reader_script
{
	my ($times) = @_;
	my $look = ValueTwins::comparisons_of_values();

	return "SET deadlock_timeout = '50ms';\nSET statement_timeout = '180s';\n"
	  . "BEGIN ISOLATION LEVEL REPEATABLE READ;\n$look${look}COMMIT;\n$look" x $times;
}

1;
