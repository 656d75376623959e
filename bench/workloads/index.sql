--- random look-ups by primary key
-- with enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off
-- with enable_memoize = off
SELECT sum(item.r) FROM probe JOIN item USING (id);

--- half of the rows in the order of the key
-- with enable_seqscan = off, enable_bitmapscan = off
SELECT sum(r) FROM item WHERE id <= {rows} / 2;

--- index on bigint, random
-- reset
DROP INDEX IF EXISTS item_r;
-- timed
CREATE INDEX item_r ON item (r);

--- index on text, C, random
-- reset
DROP INDEX IF EXISTS item_s;
-- timed
CREATE INDEX item_s ON item (s);
