-- A part of the index of identities. ARGV: 1 and 2 the range, 3 how many.
return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
