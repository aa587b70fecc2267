// Package tokens says which tokens a sweep may forget.
package tokens

import "math"

// Spared is how many of a store's last tokens no sweep forgets. A name without a record gets a token above the greatest that was forgotten, so
// a record with one of the last would leave no token to any other name: such a record stays, and harms its own name only. So a name
// can always be granted that often. Honest tokens do not come near: they are counted from 1, or from the microseconds since 1970, and those
// of a store whose greatest token is 2^53-1, as Redis, are spared from the year 2255 on.
const Spared = 1 << 40

// Forgettable is the greatest token that a sweep forgets, where tokens are of 64 bits.
const Forgettable = math.MaxInt64 - Spared
