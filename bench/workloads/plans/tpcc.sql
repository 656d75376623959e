-- TPC-C as its specification (revision 5.11) has it: tables (1.3), rows (4.3.3.1, with ids
-- in place
-- of random texts where only their length matters), and the queries of the five transactions
-- (2.4 to
-- 2.8), as text and as generic plans.  :warehouses is set before.
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_street_1 varchar(20),
	w_street_2 varchar(20),
	w_city varchar(20), w_state char(2), w_zip char(9), w_tax numeric(4, 4), w_ytd
	numeric(12, 2));
CREATE TABLE district (d_id int, d_w_id int, d_name varchar(10), d_street_1 varchar(20),
	d_street_2 varchar(20),
	d_city varchar(20), d_state char(2), d_zip char(9), d_tax numeric(4, 4), d_ytd numeric(12, 2),
	d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_middle
	char(2), c_last varchar(16),
	c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2),
	c_zip char(9),
	c_phone char(16), c_since timestamp, c_credit char(2), c_credit_lim numeric(12, 2),
	c_discount numeric(4, 4),
	c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int,
	c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date
	timestamp,
	h_amount numeric(6, 2), h_data varchar(24));
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int, PRIMARY KEY (no_w_id, no_d_id,
	no_o_id));
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d timestamp,
	o_carrier_id int,
	o_ol_cnt int, o_all_local int, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int,
	ol_supply_w_id int,
	ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24),
	PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5,
	2), i_data varchar(50));
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, s_dist_01 char(24), s_dist_02
	char(24),
	s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), s_dist_06 char(24),
	s_dist_07 char(24),
	s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24), s_ytd int, s_order_cnt
	int, s_remote_cnt int,
	s_data varchar(50), PRIMARY KEY (s_i_id, s_w_id));

-- The same values on heap and on leanstore, spread as random ones are.
CREATE FUNCTION mix(a bigint, below int) RETURNS int LANGUAGE sql IMMUTABLE
	RETURN ((hashint8(a)::bigint + 2147483648) % below)::int;
CREATE FUNCTION name_of(n int) RETURNS text LANGUAGE sql IMMUTABLE RETURN
	(ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION',
	'EING'])[n / 100 + 1] ||
	(ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION',
	'EING'])[n / 10 % 10 + 1] ||
	(ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION',
	'EING'])[n % 10 + 1];
INSERT INTO item SELECT i, mix(i, 10000), 'item' || mix(i, 1000000), 1 + mix(i, 99),
	repeat('d', 38) FROM generate_series(1, 100000) i;
INSERT INTO warehouse SELECT w, 'ware' || w, repeat('s', 15), repeat('t', 15), repeat('c',
	15), 'ST', '123411111', 0.1, 300000
	FROM generate_series(1, :warehouses) w;
INSERT INTO district SELECT d, w, 'dist' || d, repeat('s', 15), repeat('t', 15), repeat('c',
	15), 'ST', '123411111', 0.1, 30000, 3001
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d;
INSERT INTO customer SELECT c, d, w, 'first' || mix(c * 100 + d, 100000), 'OE',
	name_of(CASE WHEN c <= 1000 THEN c - 1 ELSE mix(c * 100 + d, 1000) END), repeat('s',
	15), repeat('t', 15), repeat('c', 15),
	'ST', '123411111', '1234567890123456', '2020-01-01', 'GC', 50000, 0.1, -10, 10, 1, 0,
	repeat('d', 400)
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
INSERT INTO history SELECT c, d, w, d, w, '2020-01-01', 10, repeat('h', 18)
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
INSERT INTO orders SELECT o, d, w, 1 + (o * 1009 + d) % 3000, '2020-01-01', CASE WHEN o <
	2101 THEN 1 + mix(o, 10) END,
	5 + mix(o * 100 + d, 11), 1
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) o;
INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_id > 2100;
INSERT INTO order_line SELECT o_id, o_d_id, o_w_id, l, 1 + mix(o_id::bigint * 10000 + o_d_id
	* 100 + l + o_w_id * 1000000000::bigint, 100000), o_w_id,
	CASE WHEN o_id < 2101 THEN o_entry_d END, 5, mix(o_id + l, 9999) / 100.0, repeat('x', 24)
	FROM orders, generate_series(1, 15) l WHERE l <= o_ol_cnt;
INSERT INTO stock SELECT i, w, 10 + mix(i * 1000::bigint + w, 91), 'a', 'b', 'c', 'd', 'e',
	'f', 'g', 'h', 'i', 'j', 0, 0, 0, repeat('d', 38)
	FROM generate_series(1, :warehouses) w, generate_series(1, 100000) i;
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
VACUUM ANALYZE;

-- 2.4 new order
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = 1 AND c_w_id
	= w_id AND c_d_id = 3 AND c_id = 77;
SELECT d_next_o_id, d_tax FROM district WHERE d_id = 3 AND d_w_id = 1 FOR UPDATE;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3 AND d_w_id = 1;
SELECT i_price, i_name, i_data FROM item WHERE i_id = 4711;
SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN (4711, 11, 99999, 777, 31415,
	27182, 1, 5, 500, 5000);
SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_i_id = 4711 AND s_w_id = 1 FOR UPDATE;
SELECT s_i_id, s_quantity FROM stock WHERE s_w_id = 1 AND s_i_id IN (4711, 11, 99999, 777,
	31415, 27182, 1, 5, 500, 5000) FOR UPDATE;
UPDATE stock SET s_quantity = 17 WHERE s_i_id = 4711 AND s_w_id = 1;
-- 2.5 payment
UPDATE warehouse SET w_ytd = w_ytd + 10 WHERE w_id = 1;
SELECT w_street_1, w_name FROM warehouse WHERE w_id = 1;
UPDATE district SET d_ytd = d_ytd + 10 WHERE d_w_id = 1 AND d_id = 3;
SELECT count(c_id) FROM customer WHERE c_last = 'BARBARPRI' AND c_d_id = 3 AND c_w_id = 1;
SELECT c_first, c_id FROM customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_last = 'BARBARPRI'
	ORDER BY c_first;
SELECT c_data FROM customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 77 FOR UPDATE;
UPDATE customer SET c_balance = 5 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 77;
-- 2.6 order status
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_c_id =
	77 ORDER BY o_id DESC LIMIT 1;
SELECT o_id FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_c_id = 77 AND o_id = (SELECT
	max(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_c_id = 77);
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE
	ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 2500;
-- 2.7 delivery
SELECT no_o_id FROM new_order WHERE no_d_id = 3 AND no_w_id = 1 ORDER BY no_o_id LIMIT 1;
SELECT min(no_o_id) FROM new_order WHERE no_d_id = 3 AND no_w_id = 1;
DELETE FROM new_order WHERE no_d_id = 3 AND no_w_id = 1 AND no_o_id = 2200;
UPDATE orders SET o_carrier_id = 5 WHERE o_id = 2200 AND o_d_id = 3 AND o_w_id = 1;
SELECT sum(ol_amount) FROM order_line WHERE ol_o_id = 2200 AND ol_d_id = 3 AND ol_w_id = 1;
SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = 1 AND (ol_d_id, ol_o_id) IN ((1, 2200),
	(2, 2201), (3, 2202), (4, 2203), (5, 2204));
UPDATE order_line SET ol_delivery_d = now() WHERE ol_o_id = 2200 AND ol_d_id = 3 AND ol_w_id = 1;
-- 2.8 stock level: in two queries, and as HammerDB has it in one
SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 3;
SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = 3 AND
	ol_o_id < 3001 AND ol_o_id >= 2981 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 15;
SELECT count(DISTINCT s_i_id) FROM order_line, stock, district WHERE ol_w_id = 1 AND ol_d_id
	= 3 AND d_w_id = 1 AND d_id = 3 AND ol_o_id < d_next_o_id AND ol_o_id >= d_next_o_id -
	20 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 15;

PREPARE no_1 (int, int, int) AS SELECT c_discount, c_last, c_credit, w_tax FROM customer,
	warehouse WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3;
PREPARE no_2 (int, int) AS SELECT s_quantity FROM stock WHERE s_i_id = $1 AND s_w_id = $2 FOR
	UPDATE;
PREPARE pay_1 (text, int, int) AS SELECT c_first, c_id FROM customer WHERE c_w_id = $2 AND
	c_d_id = $3 AND c_last = $1 ORDER BY c_first;
PREPARE status_1 (int, int, int) AS SELECT o_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2
	AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1;
PREPARE status_2 (int, int, int) AS SELECT ol_i_id, ol_amount FROM order_line WHERE ol_w_id =
	$1 AND ol_d_id = $2 AND ol_o_id = $3;
PREPARE del_1 (int, int) AS SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2
	ORDER BY no_o_id LIMIT 1;
PREPARE level_1 (int, int, int, int) AS SELECT count(DISTINCT s_i_id) FROM order_line, stock
	WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $3 - 20 AND s_w_id
	= $1 AND s_i_id = ol_i_id AND s_quantity < $4;
PREPARE level_2 (int, int, int) AS SELECT count(DISTINCT s_i_id) FROM order_line, stock,
	district WHERE ol_w_id = $1 AND ol_d_id = $2 AND d_w_id = $1 AND d_id = $2 AND ol_o_id
	< d_next_o_id AND ol_o_id >= d_next_o_id - 20 AND s_w_id = $1 AND s_i_id = ol_i_id AND
	s_quantity < $3;
SET plan_cache_mode = force_generic_plan;
EXECUTE no_1(1, 3, 77);
EXECUTE no_2(4711, 1);
EXECUTE pay_1('BARBARPRI', 1, 3);
EXECUTE status_1(1, 3, 77);
EXECUTE status_2(1, 3, 2500);
EXECUTE del_1(1, 3);
EXECUTE level_1(1, 3, 3001, 15);
EXECUTE level_2(1, 3, 15);
