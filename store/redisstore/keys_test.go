package redisstore

import "testing"

// TestPartsStayAsTheyAre: in a cluster the records that were written before are found, whatever version of this package wrote them.
func TestPartsStayAsTheyAre(t *testing.T) {
	s := &Store{parts: newBuckets("p", buckets)}
	for name, want := range map[string]string{
		"report": "{p:43}:r:report", "lock/report": "{p:9}:r:lock/report", "sem/permits/7": "{p:47}:r:sem/permits/7", "sem/permits/42": "{p:47}:r:sem/permits/42", "sem/permits/999": "{p:47}:r:sem/permits/999", "orders/1000": "{p:56}:r:orders/1000", "orders/1001": "{p:11}:r:orders/1001", "orders/": "{p:57}:r:orders/", "42": "{p:3}:r:42", "orders/4x": "{p:29}:r:orders/4x", "é": "{p:1}:r:é",
	} {
		if got := s.parts[s.bucketOf(name)].records + name; got != want {
			t.Errorf("the record of %q is at %q, want %q", name, got, want)
		}
	}
	one := newBuckets("p", 1)[0]
	if one.records != "{p:0}:r:" || one.floor != "{p:0}:floor" || one.names != "{p:0}:names" || one.due != "{p:0}:due" || one.channel != "{p:0}:c:" || one.watched != "{p:0}:watched" {
		t.Errorf("the keys of the only part are %+v", one)
	}
}

// TestRedissonsChannels: Redisson puts braces around the name of a lock only where the name has none.
func TestRedissonsChannels(t *testing.T) {
	for lock, want := range map[string]string{
		"report": "redisson_lock__channel:{report}", "{app}:report": "redisson_lock__channel:{app}:report", "a{b": "redisson_lock__channel:a{b",
	} {
		if got := redissonChannel(lock); got != want {
			t.Errorf("the channel of the lock %q is %q, want %q", lock, got, want)
		}
	}
}
