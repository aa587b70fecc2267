// Package proof judges histories: what replicas asked a store, what they were told, what they believed and did, on one true clock.
// It does not care where a history comes from: a simulation in fake time, or real processes on real servers whose lines of JSON
// have been merged.
//
// Each checker looks for another way to be wrong, because each misses what others find. Linearizability alone does not see a
// holder that believes in its lease for too long, and beliefs that never overlapped do not show that they could not have. So
// [Check] asks all of them. What could not be checked is counted, never passed over in silence.
package proof
