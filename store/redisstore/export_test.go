package redisstore

// ACL is the line of docs/stores/redis.md.
const ACL = aclLine

// Hear is what the inbox of lines hears.
func (s *Store) Hear(message string) { s.lines.heard(message) }

// GivenUp is how many requests are noted to end that have not returned.
func (s *Store) GivenUp() int64 { return s.wires.ending.Load() }
