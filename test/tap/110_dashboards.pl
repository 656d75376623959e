# docs/dashboards: each query of the exporter's file runs for a member of pg_monitor and has the
# columns that are declared, each metric of the dashboard is made by one of them, leanstore_top
# runs.
use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use JSON::PP;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = 'docs/dashboards';
my $queries = CPAN::Meta::YAML->read_string(slurp_file("$folder/queries.yaml"))->[0];
my $dashboard = decode_json(slurp_file("$folder/leanstore.json"));

# A server that has worked, with values out of line, a snapshot that is held, a prepared
# transaction, a slot that no standby has used, and range locks.
my $node = LeanstoreTest->new_node('watched',
	init => { allows_streaming => 1 },
	max_prepared_transactions => 5,
	'leanstore.buffer_pool_size' => '8MB',
	listen_addresses => '');
$node->safe_psql('postgres', q{
	CREATE ROLE exporter LOGIN;
	GRANT pg_monitor TO exporter;
	CREATE TABLE large (id int PRIMARY KEY, v text) USING leanstore;
	ALTER TABLE large ALTER v SET STORAGE EXTERNAL;
	INSERT INTO large SELECT i, repeat(md5(i::text), 300) FROM generate_series(1, 200) i});
$node->pgbench_init('postgres', 1);
$node->run_pgbench('postgres', qw(-c 2 -t 100));
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM large');
$node->safe_psql('postgres', q{BEGIN; UPDATE large SET v = 'p' WHERE id = 1;
	PREPARE TRANSACTION 'forgotten'});
$node->safe_psql('postgres', q{UPDATE large SET v = 'new' WHERE id > 100;
	SELECT pg_create_physical_replication_slot('s')});

# The rows of a query as the exporter sees them, by column.
sub rows_of
{
	my ($query) = @_;
	my $rows = $node->safe_psql('postgres', "SELECT json_agg(row_to_json(q)) FROM ($query) q",
		extra_params => [ '-U', 'exporter' ]);

	return @{ decode_json($rows || '[]') };
}

# --- The exporter's queries ---

my %made;
foreach my $key (sort keys %$queries)
{
	my %usage = map { my ($name) = keys %$_; $name => $_->{$name} } @{ $queries->{$key}{metrics} };
	my @rows = rows_of($queries->{$key}{query});

	cmp_ok(scalar @rows, '>', 0, "$key has rows");
	is_deeply([ sort keys %{ $rows[0] } ], [ sort keys %usage ], "$key: columns as declared");
	foreach my $column (sort keys %usage)
	{
		my ($kind, $description) = @{ $usage{$column} }{qw(usage description)};

		like("$kind: $description", qr/^(GAUGE|COUNTER|LABEL): \w/, "$key.$column is declared");
		next if $kind eq 'LABEL';
		$made{"${key}_$column"} = 1;
		my @values = grep { defined } map { $_->{$column} } @rows;
		is(scalar(grep { !/^-?\d+(\.\d+)?([eE][-+]?\d+)?$/ } @values), 0,
			"$key.$column is a number");
	}
	my @labels = grep { $usage{$_}{usage} eq 'LABEL' } sort keys %usage;
	my %series = map { join('|', @$_{@labels}) => 1 } @rows;
	is(scalar keys %series, scalar @rows, "$key: one row for each series");
}

# Every view is there, and what was made to be seen is.
my $text = join ' ', map { $_->{query} } values %$queries;
foreach my $view (split /\n/, $node->safe_psql('postgres', q{
	SELECT c.relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND deptype = 'e'
	WHERE relkind = 'v' AND (relname LIKE 'leanstore_stat%' OR relname = 'leanstore_range_locks')}))
{
	like($text, qr/\b$view\b/, "the exporter has $view");
}
my %holder = map { $_->{holder} => $_ } rows_of($queries->{leanstore_snapshot}{query});
is($holder{$_}{number}, 1, "one snapshot: $_") for qw(session prepared);
is($holder{$_}{number}, 0, "no snapshot: $_") for qw(standby slot);
cmp_ok($holder{prepared}{oldest_seconds}, '>', 0, 'of an age');
my ($locks) = rows_of($queries->{leanstore_range_locks}{query});
cmp_ok($locks->{held}, '>', 0, 'ranges are locked');

# --- The dashboard ---

my @panels = grep { $_->{type} ne 'row' } @{ $dashboard->{panels} };
cmp_ok(scalar @panels, '>', 10, 'panels');
my %ids;
my %shown;
foreach my $panel (@panels)
{
	my @used = map { $_->{expr} =~ /\b(leanstore_\w+)/g } @{ $panel->{targets} };

	$ids{ $panel->{id} }++;
	cmp_ok(scalar @used, '>', 0, "panel $panel->{title} shows metrics");
	is(join(' ', grep { !$made{$_} } @used), '', "panel $panel->{title}: they are made");
	@shown{@used} = ();
}
is(scalar keys %ids, scalar @panels, 'each panel has a number of its own');
foreach my $variable (@{ $dashboard->{templating}{list} })
{
	my $query = ref $variable->{query} ? $variable->{query}{query} : $variable->{query};

	is(join(' ', grep { !$made{$_} } $query =~ /\b(leanstore_\w+)/g), '',
		"variable $variable->{name}: its metrics are made");
}
foreach my $metric (map { /`(leanstore_[a-z_]+)`/g } grep { /^\| `leanstore_/ }
	split /\n/, slurp_file("$folder/README.md"))
{
	ok($made{$metric}, "README.md: $metric is made") unless $metric eq 'leanstore_values';
}

# --- leanstore_top ---

my ($out, $error) = ('', '');
{
	local %ENV = $node->_get_env();
	IPC::Run::run([ $node->installed_command('psql'),
			qw(-X -A -U exporter -d postgres -v ON_ERROR_STOP=1 -v interval=0.1 -v count=3),
			'-f', "$folder/leanstore_top.sql" ], '>' => \$out, '2>' => \$error);
}
is($error, '', 'leanstore_top has no complaints');
is(() = $out =~ /^pool\|free frames\|/mg, 3, 'it looks three times');
like($out, qr/^$_/m, "it tells $_")
  for 'pool\|pages found\|[\d.]+ % of those wanted\|[\d.]+$',
  'eviction\|pages evicted\|\d+\|[\d.]+$',
  'log\|commits\|\d+, [\d.]+ for each write\|[\d.]+$',
  'checkpoint\|log to recover\|\d+ ',
  'versions\|kept\|\d+\|$',
  'versions\|oldest snapshot\|\d+ transactions ago, [\d:]+: (session \d+, \w+|prepared)',
  'values\|of this database\|\d+ kB, ',
  'range locks\|held, waited for\|[1-9]\d*, 0';
is(() = $out =~ /^pool\|pages read\|\d+\|[\d.]+$/mg, 2, 'the second look has rates');

$reader->query_safe('COMMIT');
$reader->quit;
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'forgotten'});
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
