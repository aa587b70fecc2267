-- An expression: four words (bigint a, b, c and d), sealed with the store's secret, as 96 hexadecimal digits. The first 32 are a check value,
-- which nobody makes who does not know the secret; the others are the words, masked. The same words give the same text. See seal.go.
(SELECT encode(k.tag, 'hex')
  || encode(int8send(k.a # ('x' || substr(k.mask, 1, 16))::bit(64)::bigint), 'hex')
  || encode(int8send(k.b # ('x' || substr(k.mask, 17, 16))::bit(64)::bigint), 'hex')
  || encode(int8send(k.c # ('x' || substr(k.mask, 33, 16))::bit(64)::bigint), 'hex')
  || encode(int8send(k.d # ('x' || substr(k.mask, 49, 16))::bit(64)::bigint), 'hex')
FROM (
  SELECT t.*, encode(sha256(decode('02', 'hex') || t.secret || t.tag), 'hex') AS mask
  FROM (
    SELECT w.*, m.secret,
      substring(sha256(decode('01', 'hex') || m.secret || int8send(w.a) || int8send(w.b) || int8send(w.c) || int8send(w.d)) FROM 1 FOR 16) AS tag
    FROM {{meta}} AS m, (SELECT {{words}}) AS w WHERE m.one = 1 OFFSET 0
  ) AS t OFFSET 0
) AS k)
