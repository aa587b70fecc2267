package proof

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func well(replica string, from, to time.Duration) Event {
	return Event{Kind: Well, At: from, Until: to, Replica: replica, Name: "job"}
}

// lingers makes a release leave the name taken.
func lingers(e Event, linger time.Duration) Event {
	e.Linger = linger
	return e
}

// askedAgain makes a grant one that the store has made and its holder was not told of at first.
func askedAgain(e Event) Event {
	e.Result, e.Token, e.Until = Unknown, 0, Never
	return e
}

func by(replica string, e Event) Event {
	e.Replica = replica
	return e
}

// TestOmission gives histories of a job that is due each 10 s and has a grace of 5 s. Two lie side by side wherever a little decides.
func TestOmission(t *testing.T) {
	always := well("w", 0, 60*s)
	elsewhere := grant(0, 9, time.Millisecond) // so that the store has been watched
	at20 := func(change func(*Omission)) JobRule {
		r := JobRule{Name: "job", Record: "job", Next: everyTen, Zero: 10_000, Omission: Omission{Grace: 5 * s, Look: s / 2, Until: 15 * s}}
		if change != nil {
			change(&r.Omission)
		}
		return r
	}
	observed := at20(func(o *Omission) { o.Observed = true })
	spaced := at20(func(o *Omission) { o.Observed, o.Spaced = true, 5*s })
	skewed := at20(nil)
	skewed.Skew = s
	shortly := at20(func(o *Omission) { o.Grace = s })
	shortly.Skew = s
	tried := skewed
	tried.Omission.Tries = true
	aged := tried
	aged.Omission.Drift = 0.1
	once := at20(nil)
	once.AtMostOnce = true
	delayed := JobRule{Name: "job", Record: "job", Delay: 5 * s, Omission: Omission{Grace: 5 * s, Until: 15 * s}}
	lately := delayed
	lately.Omission.Observed, lately.Omission.Spaced, lately.Omission.Until = true, 5*s, 20*s
	told := with(markRaised(10*s, 1, 20*s), func(e *Event) { e.Kind = Extend })
	manual := with(run(5*s, 10*s, 16*s, 1, Okay, 0), func(e *Event) { e.Manual = true })
	// An earlier time is taken over 1.75 s after the job was free, by who has waited for another that claimed for all until half a second before.
	waited := func(told ...Event) History {
		claims := func(e *Event) { e.Name = "group/1" }
		h := History{always, grant(7*s, 1, 4*s), with(by("v", grant(10*s, 7, 9*s)), claims), with(by("v", markRaised(11*s, 7, 0)), func(e *Event) { e.Name, e.Linger = "group/1", 5*s/4 }),
			grant(12*s+3*s/4, 2, 9*s), run(10*s, 13*s, 16*s, 2, Okay, 17*s)}
		return append(h, told...)
	}
	toldAt := func(replica string, at time.Duration) Event {
		return Event{Kind: Acquire, At: at - 1, Until: at, Replica: replica, Name: "group/1", Holder: replica + "#g", Token: 7, TTL: s, Result: Held, Took: at, Did: Held, DidToken: 7}
	}
	grouped := at20(func(o *Omission) { o.Group = "group/" })
	named := func(name string, h History) History { // h, but that the group's name is another
		for i := range h {
			if h[i].Name == "group/1" {
				h[i].Name = name
			}
		}
		return h
	}
	kept := func(took, ttl time.Duration, change func(*Event)) Event { // an extension of the first lease
		return with(Event{Kind: Extend, At: took, Until: took, Name: "job", Holder: attempt(1), Token: 1, TTL: ttl, Result: Okay, Took: took, Did: Okay}, change)
	}
	same := func(*Event) {}
	unwatched := with(elsewhere, func(e *Event) { e.Took, e.Did, e.DidToken = 0, "", 0 })
	other := func(e *Event) { e.Name = "other" }
	before10, ran10 := func(e *Event) { e.Mark = 10_000 }, run(10*s, 15*s, 16*s, 2, Okay, 17*s)
	skewedBy3 := tried
	skewedBy3.Skew = 3 * s
	later := func(d time.Duration) func(*Omission) {
		return func(o *Omission) { o.Start = func(int64) time.Duration { return 2 * s }; o.From = d }
	}
	// overtaking is a linger that all have to see, and a run of one that was not well.
	overtaking := func(r Event, more ...Event) History {
		return append(History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s), by("v", grant(r.At-s, 2, 9*s)), by("v", r)}, more...)
	}
	thirty := func(at time.Duration) Event { return run(30*s, at, at+s, 2, Okay, at+2*s) }
	// repeated is a run of a job with a delay, due again at 8 s.
	repeated := func(change func(*Event), more ...Event) History {
		return append(History{always, grant(s, 1, 9*s), with(run(2*s, 2*s, 3*s, 1, Okay, 4*s), change), markRaised(4*s, 1, 2*s)}, more...)
	}
	repeats := func(change func(*JobRule)) JobRule {
		r := delayed
		change(&r)
		return r
	}
	doubted := func(from, to time.Duration) JobRule {
		return repeats(func(r *JobRule) { r.Omission.Doubt = []Span{{from, to}} })
	}
	// Due again at 8 s, and then 2 s later if that is the time it is claimed for; 4 s later are the most.
	jittered := repeats(func(r *JobRule) {
		r.Omission.Jitter, r.Omission.Until = 4*s, 17*s
		r.Omission.Start = func(scheduled int64) time.Duration {
			if scheduled == 8_000 {
				return 2 * s
			}
			return 4*s - 1
		}
	})
	due8, due9 := func(e *Event) { e.Mark = 8_000 }, func(e *Event) { e.Mark = 9_000 }
	skewedDelay := repeats(func(r *JobRule) { r.Skew = s })
	tests := []struct {
		name string
		h    History // whose instant 0 is ten seconds before the scheduled time 20
		rule JobRule
		bad  bool
	}{
		{"begun", History{always, grant(10*s, 1, 9*s), run(20*s, 10*s, 11*s, 1, Okay, 12*s)}, at20(nil), false},
		{"begun late by another", History{always, grant(10*s, 1, 9*s), grant(19*s, 2, 9*s), run(20*s, 19*s, 20*s, 2, Okay, 21*s)}, at20(nil), false},
		{"begun, and cut off", History{always, grant(10*s, 1, 9*s), run(20*s, 10*s, Never, 1, Unknown, 0)}, at20(nil), false},
		{"begun by nobody", History{always, elsewhere}, at20(nil), true},
		{"another time is begun", History{always, grant(16*s, 1, 9*s), run(30*s, 20*s, 21*s, 1, Okay, 22*s)}, at20(nil), true},
		{"another time is begun for it", History{always, grant(16*s, 1, 9*s), run(30*s, 20*s, 21*s, 1, Okay, 22*s)}, at20(func(o *Omission) { o.Later = true }), false},
		{"one before it is begun", History{always, grant(0, 1, 9*s), run(10*s, 0, s, 1, Okay, 2*s)}, at20(func(o *Omission) { o.Later = true }), true},
		{"nobody was well", History{elsewhere}, at20(nil), false},
		{"well until Grace is over", History{well("w", 10*s, 15*s), elsewhere}, at20(nil), true},
		{"well until Grace is nearly over", History{well("w", 10*s, 15*s-1), elsewhere}, at20(nil), false},
		{"well a little too late", History{well("w", 10*s+1, 20*s), elsewhere}, at20(nil), false},
		{"one was well after the other", History{well("v", 0, 13*s), well("w", 12*s, 20*s), elsewhere}, at20(nil), false},
		{"well, and does not know the job", History{with(always, func(e *Event) { e.Name = "other" }), elsewhere}, at20(nil), false},
		{"before the fleet has agreed", History{always, elsewhere}, at20(func(o *Omission) { o.From = 10*s + 1 }), false},
		{"when the fleet has agreed", History{always, elsewhere}, at20(func(o *Omission) { o.From = 10 * s }), true},
		{"too near to the end", History{always, elsewhere}, at20(func(o *Omission) { o.Until = 15*s - 1 }), false},

		{"who was granted it died", History{always, grant(10*s, 1, 30*s)}, at20(nil), true},
		{"two that were granted it died", History{always, grant(10*s, 1, 3*s), grant(13*s, 2, 9*s)}, at20(nil), false},
		{"two that were granted it died, and one that was well follows", History{always, grant(10*s, 1, 3*s), grant(13*s, 2, 9*s), by("w", grant(23*s, 3, 9*s))}, at20(nil), true},
		{"two that were granted it died, and one that was not well follows", History{always, grant(10*s, 1, 3*s), grant(13*s, 2, 9*s), by("v", grant(23*s, 3, 9*s))}, at20(nil), false},
		{"two that were granted it died, one that was not well runs another, and one that was well follows", History{always, grant(10*s, 1, 3*s), grant(13*s, 2, 4*s),
			by("v", grant(18*s, 3, 9*s)), run(30*s, 20*s, 21*s, 3, Okay, 22*s), markRaised(22*s, 3, 30*s), by("w", grant(23*s, 4, 9*s))}, at20(nil), false},
		{"who was granted it died, and the next learned of its grant by asking again", History{always, grant(10*s, 1, 3*s), by("v", askedAgain(grant(13*s, 2, 9*s))), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), false},
		{"who was granted it died, and the next, which was well, learned of its grant by asking again", History{always, grant(10*s, 1, 3*s), by("w", askedAgain(grant(13*s, 2, 9*s))), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), true},
		{"who was granted it died, and the next learned of its grant at once", History{always, grant(10*s, 1, 3*s), by("v", grant(13*s, 2, 9*s)), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), true},
		{"nobody died, and the first learned of its grant by asking again", History{always, by("v", askedAgain(grant(13*s, 2, 9*s))), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), true},
		{"one that was granted it died, and one gave it back", History{always, grant(10*s, 1, 3*s), grant(13*s, 2, 9*s), markRaised(14*s, 2, 10*s)}, at20(nil), true},
		{"who had it before kept it", History{always, grant(9*s, 1, 6*s)}, at20(nil), false},
		{"who had it before kept it until an eighth of Grace was left", History{always, grant(9*s, 1, 5*s+375*time.Millisecond)}, at20(nil), false},
		{"who had it before kept it until more was left", History{always, grant(9*s, 1, 5*s+374*time.Millisecond)}, at20(nil), true},
		{"who had it before kept it for most of Grace", History{always, grant(9*s, 1, 4*s)}, at20(nil), true},
		{"who had it before may be seen to have had it until now", History{always, grant(0, 1, 5*s)}, observed, false},
		{"who had it before may be seen to have had it until most of Grace is left", History{always, grant(0, 1, 4*s)}, observed, true},
		{"it may be seen to linger until now", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s)}, spaced, true},
		{"it may be seen to linger until nobody was well", History{well("w", 0, 20*s), grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s)}, spaced, false},
		{"it may be seen to linger until somebody was still well", History{well("w", 0, 20*s+s/2), grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s)}, spaced, true},
		{"it may be seen to linger, and one that was not well begins a later time", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s),
			by("v", grant(19*s, 2, 9*s)), by("v", run(30*s, 20*s, 21*s, 2, Okay, 22*s))}, spaced, false},
		{"it may be seen to linger, and one that was well begins a later time", History{always, well("v", 0, 60*s), grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s),
			by("v", grant(19*s, 2, 9*s)), by("v", run(30*s, 20*s, 21*s, 2, Okay, 22*s))}, spaced, true},
		{"it may be seen to linger, and then for a run of an earlier time that is late", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 0), 2*s),
			grant(13*s, 2, 9*s), run(10*s, 13*s, 14*s, 2, Okay, 14*s), lingers(markRaised(14*s, 2, 10*s), 4*s)}, spaced, false},
		{"who had it before may be seen late to have extended it", History{always, grant(7*s, 1, 4*s), grant(13*s, 2, 9*s), run(10*s, 13*s, 16*s, 2, Okay, 17*s)}, observed, false},
		{"who had it before may not be seen so late to have extended it", History{always, grant(9*s, 1, s+s/2), grant(13*s, 2, 9*s), run(10*s, 13*s, 16*s, 2, Okay, 17*s)}, observed, true},
		{"it lingers in vain, and then for a run of an earlier time that is late", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 0), 2*s),
			grant(13*s, 2, 9*s), run(10*s, 13*s, 14*s, 2, Okay, 14*s), lingers(markRaised(14*s, 2, 10*s), 4*s)}, at20(nil), true},
		{"there is a clock, and one that was not well begins a later time", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s),
			by("v", grant(19*s, 2, 9*s)), by("v", run(30*s, 20*s, 21*s, 2, Okay, 22*s))}, at20(func(o *Omission) { o.Spaced = 5 * s }), true},
		{"it lingered, and there is a clock", History{always, grant(0, 1, 5*s), lingers(markRaised(s, 1, 10*s), 5*s)}, at20(nil), true},
		{"it was released without a linger", History{always, grant(0, 1, 5*s), markRaised(s, 1, 10*s)}, observed, true},
		{"somebody has found that who had it before has it no longer, and gave it back", History{always, grant(0, 1, 5*s), grant(8*s, 2, 9*s), markRaised(9*s, 2, 10*s)}, observed, true},
		{"who had it before has given it back", History{always, grant(9*s, 1, 9*s), markRaised(12*s, 1, 10*s)}, at20(nil), true},
		{"it lingered for all of Grace", History{always, grant(8*s, 1, 9*s), lingers(markRaised(9*s, 1, 10*s), 6*s)}, at20(nil), false},
		{"it lingered for a part of Grace", History{always, grant(8*s, 1, 9*s), lingers(markRaised(9*s, 1, 10*s), 3*s)}, at20(nil), true},
		{"an earlier time was taken over, and took long", History{always, grant(10*s, 1, 9*s), run(10*s, 10*s, 17*s, 1, Okay, 18*s)}, at20(nil), false},
		{"an earlier time was taken over, and did not take long", History{always, grant(10*s, 1, 9*s), run(10*s, 10*s, 11*s, 1, Okay, 12*s), markRaised(12*s, 1, 10*s)}, at20(nil), true},
		{"one after the other had it", History{always, grant(7*s, 1, 4*s), grant(11*s+s/4, 2, 9*s), run(10*s, 12*s, 16*s, 2, Okay, 17*s)}, at20(nil), false},
		{"who had it before gave it back after all were refused for the last time", History{always, grant(9*s, 1, 9*s), markRaised(14*s+2*s/5, 1, 0),
			grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 18*s, 2, Okay, 19*s)}, at20(nil), false},
		{"who had it before gave it back before all looked for the last time", History{always, grant(9*s, 1, 9*s), markRaised(14*s+3*s/10, 1, 0),
			grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 18*s, 2, Okay, 19*s)}, at20(nil), true},
		{"one after the other had it, with a gap", History{always, grant(7*s, 1, 4*s), grant(11*s+s, 2, 9*s), run(10*s, 13*s, 16*s, 2, Okay, 17*s)}, at20(nil), false},
		{"one after the other had it, and it was free when an eighth of Grace was left", History{always, grant(7*s, 1, 4*s), grant(14*s+9*s/10, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, at20(nil), true},
		{"it was free from the beginning until an eighth of Grace was left", History{always, elsewhere, grant(10*s+s, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, at20(nil), true},
		{"what was given back early had been granted for longer", History{always, grant(7*s, 1, 9*s), markRaised(10*s+s/10, 1, 0), grant(14*s, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, at20(nil), false},
		{"two had it, and the second took over at once when an eighth of Grace was left", History{always, grant(7*s, 1, 7*s+s/2), grant(14*s+9*s/10, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, at20(nil), false},
		{"two had it, and the second not for an earlier time", History{always, grant(7*s, 1, 4*s), grant(11*s+s, 2, 9*s), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), true},
		{"who was well waited for another that claimed for all", waited(toldAt("w", 10*s+2)), grouped, false},
		{"who was well was told so too late", waited(toldAt("w", 12*s+3*s/4+2)), grouped, true},
		{"who was well did not wait for another", waited(toldAt("u", 10*s+2)), grouped, true},
		{"one of two that were well did not wait for another", append(waited(toldAt("w", 10*s+2)), well("u", 0, 60*s)), grouped, true},
		{"nobody claims for others", waited(toldAt("w", 10*s+2)), at20(nil), true},
		{"who died had it for an earlier time", History{always, grant(10*s, 1, 3*s), grant(13*s+s/4, 2, 9*s), run(10*s, 14*s, 16*s, 2, Okay, 17*s)}, at20(nil), false},
		{"who died had it for this time", History{always, grant(10*s, 1, 3*s), grant(13*s+s/4, 2, 9*s), run(30*s, 20*s, 21*s, 2, Okay, 22*s)}, at20(nil), true},
		{"who had it told of an earlier beginning", History{always, grant(10*s, 1, 9*s), with(told, func(e *Event) { e.Mark = 10_000 })}, once, false},
		{"who had it gave an earlier time up", History{always, grant(10*s, 1, 9*s), markRaised(19*s-s/10, 1, 10*s)}, at20(nil), false},
		{"who had it gave this time up", History{always, grant(10*s, 1, 9*s), markRaised(19*s-s/10, 1, 20*s)}, at20(nil), true},
		{"somebody whose clock is ahead begins a later time", History{well("w", 0, 60*s), grant(12*s, 1, 9*s), run(25*s, 14*s, 15*s, 1, Okay, 16*s)}, skewed, false},
		{"somebody whose clock is ahead begins a later time while one whose clock is behind could have begun it", History{well("w", 0, 60*s), grant(15*s, 1, 9*s), run(30*s, 16*s, 17*s, 1, Okay, 18*s)}, skewed, false},
		{"somebody whose clock is ahead begins a later time when nobody could have begun it", History{well("w", 0, 60*s), grant(15*s, 1, 9*s), run(30*s, 16*s+1, 17*s, 1, Okay, 18*s)}, skewed, true},
		{"somebody begins a later time when it is due", History{well("w", 0, 60*s), grant(12*s, 1, 9*s), run(25*s, 15*s, 16*s, 1, Okay, 17*s)}, skewed, true},
		{"somebody begins a later time, and no clock is ahead", History{always, grant(12*s, 1, 9*s), run(25*s, 14*s, 15*s, 1, Okay, 16*s)}, at20(nil), true},
		{"a manual run had it", History{always, grant(10*s, 1, 9*s), manual}, at20(nil), false},

		{"it was to have been begun once, and the store was told so", History{always, grant(10*s, 1, 9*s), told}, once, false},
		{"it was to have been begun once, and one that stayed well told the store so", History{always, well("a", 10*s, 10*s+1+s/2), grant(10*s, 1, 9*s), told}, once, true},
		{"it was to have been begun once, and one that was well for a moment told the store so", History{always, well("a", 10*s, 10*s+s/2), grant(10*s, 1, 9*s), told}, once, false},
		{"it was to have been begun once, and one that was well since then told the store so", History{always, well("a", 10*s+1, 60*s), grant(10*s, 1, 9*s), told}, once, false},
		{"it was to have been begun once, and one told the store so that was well with another job", History{always, with(well("a", 0, 60*s), other), grant(10*s, 1, 9*s), told}, once, false},
		{"it was to have been begun once, and one that stayed well told the store of another time", History{always, well("a", 0, 60*s), grant(10*s, 1, 9*s), with(told, func(e *Event) { e.Mark++ })}, once, true},
		{"it was to have been begun once, one that died told the store so, and one that stayed well gave it up", History{always, well("v", 0, 60*s), grant(10*s, 1, s), told, by("v", grant(12*s, 2, 9*s)),
			by("v", with(told, func(e *Event) { e.At, e.Took, e.Until, e.Token, e.DidToken = 13*s, 13*s+1, 13*s+2, 2, 2 }))}, once, false},
		{"it was to have been begun once, and the store was not told", History{always, grant(10*s, 1, 9*s)}, once, true},
		{"the store was told of a beginning that may come again", History{always, grant(10*s, 1, 9*s), told}, at20(nil), true},
		{"it has had its attempt", History{always, grant(10*s, 1, 9*s)}, at20(func(o *Omission) { o.Tries = true }), false},
		{"it has had its attempt by a clock that is ahead", History{well("w", 0, 60*s), grant(9*s, 1, s)}, tried, false},
		{"it has had its attempt before it was due by any clock", History{well("w", 0, 60*s), grant(8*s-2, 1, s)}, tried, true},
		{"who was granted it in time gave it back, and it had its attempt then", History{always, grant(14*s, 1, 9*s), markRaised(16*s, 1, 0), grant(17*s, 2, 9*s)}, at20(func(o *Omission) { o.Tries = true }), false},
		{"two who were granted it gave it back, and it had its attempt then", History{always, grant(14*s, 1, 9*s), markRaised(16*s, 1, 0), grant(17*s, 2, 9*s), markRaised(18*s, 2, 0), grant(19*s, 3, 9*s)}, at20(func(o *Omission) { o.Tries = true }), false},
		{"who was granted it in time gave it back, and nobody had it then", History{always, grant(14*s, 1, 9*s), markRaised(16*s, 1, 0)}, at20(func(o *Omission) { o.Tries = true }), true},
		{"who was granted it too late gave it back, and it had its attempt then", History{always, grant(16*s, 1, s/2), markRaised(16*s+s/4, 1, 0), grant(17*s, 2, 9*s)}, at20(func(o *Omission) { o.Tries = true }), true},
		{"who was granted it in time ran another, and it had its attempt then", History{always, grant(14*s, 1, 9*s), run(10*s, 15*s, 16*s, 1, Okay, 16*s), markRaised(16*s, 1, 10*s), grant(17*s, 2, 9*s)}, at20(func(o *Omission) { o.Tries = true }), true},
		{"who had it died, and nobody was well when that lease ended", History{well("w", 0, 19*s), grant(10*s, 1, 9*s)}, at20(nil), false},
		{"who had it died, and somebody was well when that lease ended", History{well("w", 0, 20*s), grant(10*s, 1, 9*s)}, at20(nil), true},
		{"two that were granted it died, one by a clock that is ahead", History{well("w", 0, 60*s), grant(9*s, 1, 3*s), grant(12*s, 2, 9*s)}, skewed, false},
		{"what has had its attempt is done with the one after", History{always, grant(5*s, 1, 4*s)}, at20(func(o *Omission) { o.Tries, o.Spaced = true, 6*s }), false},
		{"what has had its attempt was long before", History{always, grant(2*s-2, 1, 4*s)}, at20(func(o *Omission) { o.Tries, o.Spaced = true, 6*s }), true},
		{"after a delay nobody claims it", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s)}, delayed, true},
		{"after a delay somebody claims it", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s), grant(12*s, 2, 9*s)}, delayed, false},
		{"before the delay is over somebody claims it", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s), grant(7*s, 2, s)}, delayed, true},
		{"before the delay is over somebody claims it, and begins it then", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s),
			grant(7*s, 2, 9*s), run(8*s, 9*s, 10*s, 2, Okay, 11*s)}, delayed, false},
		{"before the delay is over somebody claims it, and begins it too late", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s),
			grant(7*s, 2, 9*s), run(8*s, 13*s+1, 14*s, 2, Okay, 14*s+5)}, delayed, true},
		{"after a delay a manual run is under way, which was asked for long before", repeated(same, grant(9*s/2, 2, 9*s), with(run(5*s, 5*s, 9*s, 2, Okay, 10*s), func(e *Event) { e.Manual = true })), delayed, false},
		{"after a delay nobody claims it, and a run of the schedule is under way", repeated(same, grant(9*s/2, 2, 9*s), run(5*s, 5*s, 9*s, 2, Okay, 10*s)), delayed, true},
		{"after a delay nobody claims it, and a manual run begins when Grace has ended", repeated(same, grant(14*s, 2, 9*s), with(run(14*s, 14*s, 15*s, 2, Okay, 15*s), func(e *Event) { e.Manual = true })), delayed, true},
		{"after a delay nobody claims it, and a manual run was before", repeated(same, with(run(s, s, 2*s, 1, Okay, 2*s), func(e *Event) { e.Manual = true })), delayed, true},
		{"after a delay it lingers", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), lingers(markRaised(4*s, 1, 2*s), 20*s)}, delayed, false},
		{"after a delay it may be seen to linger", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), lingers(markRaised(4*s, 1, 2*s), s), grant(14*s, 2, 9*s)}, lately, false},
		{"after a delay nobody claims it although it lingers no more", History{always, grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), lingers(markRaised(4*s, 1, 2*s), s), grant(19*s, 2, 9*s)}, lately, true},
		{"after a delay nobody is well", History{well("w", 0, 13*s-1), grant(s, 1, 9*s), run(2*s, 2*s, 3*s, 1, Okay, 4*s), markRaised(4*s, 1, 2*s)}, delayed, false},
		{"nobody has tried", History{always, elsewhere}, at20(func(o *Omission) { o.Tries = true }), true},
		{"it may have been paused", History{always, elsewhere}, at20(func(o *Omission) { o.Doubt = []Span{{14 * s, 20 * s}} }), false},
		{"it had been paused before", History{always, elsewhere}, at20(func(o *Omission) { o.Doubt = []Span{{8 * s, 10*s - 1}} }), true},
		{"done with the one before", History{always, grant(s, 1, 9*s), run(10*s, s, 2*s, 1, Okay, 3*s)}, at20(func(o *Omission) { o.Spaced = 11 * s }), false},
		{"not quite done with the one before", History{always, grant(s, 1, 5*s), run(10*s, s, 2*s, 1, Okay, 3*s)}, at20(func(o *Omission) { o.Spaced = 10 * s }), true},
		{"it may start later, when the replica had only begun", History{well("w", 12*s, 17*s), elsewhere}, at20(func(o *Omission) { o.Start = func(int64) time.Duration { return 2 * s } }), false},
		{"it may start later", History{well("w", 10*s, 17*s), elsewhere}, at20(func(o *Omission) { o.Start = func(int64) time.Duration { return 2 * s } }), true},
		{"it may start later, when nobody was well", History{well("w", 10*s, 16*s), elsewhere}, at20(func(o *Omission) { o.Start = func(int64) time.Duration { return 2 * s } }), false},

		{"it may start later, when the fleet has agreed", History{always, elsewhere}, at20(later(12 * s)), true},
		{"it may start later, before the fleet has agreed", History{always, elsewhere}, at20(later(12*s + 1)), false},
		{"there is no Grace", History{always, elsewhere}, at20(func(o *Omission) { o.Grace = 0 }), false},
		{"the store is not watched", History{always, unwatched}, at20(nil), false},
		{"there is a clock, and one was well until Grace is over", History{well("w", 0, 15*s), elsewhere}, at20(func(o *Omission) { o.Spaced = 5 * s }), true},
		{"there is no clock and no linger, and one was well until Grace is over", History{well("w", 0, 15*s), elsewhere}, observed, true},
		{"who had it before kept it after it is due by a clock that is ahead", History{well("w", 0, 60*s), grant(7*s, 1, 2*s)}, shortly, false},
		{"who had it before kept it until it is due by a clock that is ahead", History{well("w", 0, 60*s), grant(7*s, 1, 2*s-1)}, shortly, true},
		{"nobody was well by a clock that is behind", History{well("w", 9*s+1, 60*s), elsewhere}, skewed, false},
		{"one was well by a clock that is behind", History{well("w", 9*s, 60*s), elsewhere}, skewed, true},
		{"nobody was well until Grace is over by a clock that is ahead", History{well("w", 0, 16*s-1), elsewhere}, skewed, false},
		{"one was well until Grace is over by a clock that is ahead", History{well("w", 0, 16*s), elsewhere}, skewed, true},
		{"a person has begun it", History{always, elsewhere, manually(run(20*s, 30*s, 31*s, 3, Okay, 0))}, at20(nil), true},

		{"who was granted it as it is due died, and nobody was well when that lease ended", History{well("w", 0, 18*s), grant(10*s-1, 1, 9*s)}, at20(nil), false},
		{"who was granted it as it is due died, and one was well when that lease ended", History{well("w", 0, 60*s), grant(10*s-1, 1, 9*s)}, at20(nil), true},
		{"who was granted it as Grace ends died", History{well("w", 0, 20*s), grant(15*s-1, 1, 20*s)}, at20(nil), false},
		{"who was granted it when Grace has ended died", History{well("w", 0, 20*s), grant(15*s, 1, 20*s)}, at20(nil), true},
		{"who was granted it died when all have seen the linger", History{well("w", 0, 25*s), grant(10*s, 1, 20*s)}, spaced, false},
		{"who was granted it died when all have seen the linger, and one was well then", History{well("w", 0, 31*s), grant(10*s, 1, 20*s)}, spaced, true},
		{"who gave this time up left it to linger", History{well("w", 0, 20*s), grant(10*s, 1, 9*s), lingers(markRaised(12*s, 1, 20*s), 20*s)}, at20(nil), true},
		{"one died before it was due, and one since", History{always, grant(5*s, 1, 3*s), grant(12*s, 2, 9*s)}, at20(nil), true},
		{"two that were granted it died, one as it is due by a clock that is ahead", History{well("w", 0, 60*s), grant(9*s-1, 1, 3*s), grant(12*s, 2, 9*s)}, skewed, false},
		{"two that were granted it died, one before it is due by any clock", History{well("w", 0, 60*s), grant(9*s-2, 1, 3*s), grant(12*s, 2, 9*s)}, skewed, true},
		{"two that were granted it died, the first as Grace ended", History{always, grant(15*s-1, 1, 9*s), grant(25*s, 2, 9*s)}, at20(nil), false},
		{"two that were granted it died, the first when Grace had ended", History{always, grant(15*s, 1, 9*s), grant(25*s, 2, 9*s)}, at20(nil), true},
		{"two that were granted it died, the first when all had seen the linger", History{always, grant(20*s+s/2-1, 1, 9*s), grant(30*s, 2, 9*s)}, spaced, false},
		{"two that were granted it died, the first after that", History{always, grant(20*s+s/2, 1, 9*s), grant(30*s, 2, 9*s)}, spaced, true},
		{"two that were granted it died, the first as Grace ended by a clock that is behind", History{well("w", 0, 60*s), grant(16*s-1, 1, 9*s), grant(26*s, 2, 9*s)}, skewed, false},
		{"two that were granted it died, the first when Grace had ended by any clock", History{well("w", 0, 60*s), grant(16*s, 1, 9*s), grant(26*s, 2, 9*s)}, skewed, true},
		{"who was granted it died, and the next learned of its grant by asking again, and gave it back", History{always, grant(10*s, 1, 3*s), by("v", askedAgain(grant(13*s, 2, 9*s))), markRaised(14*s, 2, 10*s)}, at20(nil), false},
		{"it has had its attempt as Grace ended by a clock that is behind", History{well("w", 0, 60*s), grant(16*s-1, 1, s)}, tried, false},
		{"another time has had its attempt", History{well("w", 0, 60*s), grant(16*s, 1, s)}, tried, true},
		{"it has had its attempt, and was given up", History{always, grant(10*s, 1, 9*s), markRaised(12*s, 1, 20*s)}, at20(func(o *Omission) { o.Tries = true }), true},
		{"it has had its attempt, as far as clocks are taken to differ", History{well("w", 0, 60*s), grant(8*s-1, 1, s)}, tried, false},
		{"it has had its attempt, as far as its age may be told wrongly", History{well("w", 0, 60*s), grant(38*s/5-1, 1, s), grant(58*s/5, 2, s), markRaised(12*s, 2, 0)}, aged, false},
		{"it has had its attempt, before its age is told so wrongly", History{well("w", 0, 60*s), grant(38*s/5-2, 1, s), grant(58*s/5, 2, s), markRaised(12*s, 2, 0)}, aged, true},
		{"it has had its attempt, and who looked last told its age wrongly", History{well("w", 0, 60*s), grant(36*s/5, 1, s)}, aged, false},
		{"it has had its attempt, as far as clocks do differ", History{well("w", 0, 60*s), grant(7*s-1, 1, s)}, skewedBy3, false},
		{"it has had its attempt, before clocks differ so far", History{well("w", 0, 60*s), grant(7*s-2, 1, s)}, skewedBy3, true},
		{"it may have been paused as Grace ended", History{always, elsewhere}, at20(func(o *Omission) { o.Doubt = []Span{{15 * s, 20 * s}} }), false},
		{"it may have been paused when Grace had ended", History{always, elsewhere}, at20(func(o *Omission) { o.Doubt = []Span{{15*s + 1, 20 * s}} }), true},
		{"it may have been paused until it was due", History{always, elsewhere}, at20(func(o *Omission) { o.Doubt = []Span{{8 * s, 10 * s}} }), false},

		{"it was free from the beginning, and there is a clock", History{always, elsewhere, grant(11*s, 2, 9*s), ran10}, at20(func(o *Omission) { o.Spaced = 5 * s }), true},
		{"who had it before kept it, and another has it long after", History{always, grant(9*s, 1, 6*s), grant(40*s, 2, 9*s), manually(run(10*s, 40*s, 41*s, 2, Okay, 0))}, at20(nil), false},
		{"who had it before kept it until all looked for the last time", History{always, grant(9*s-1, 1, 5*s+375*time.Millisecond), grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 18*s, 2, Okay, 19*s)}, at20(nil), false},
		{"one after the other had it, with a gap for clocks that differ", History{well("w", 0, 60*s), grant(7*s, 1, 4*s), grant(13*s+s/2, 2, 9*s), ran10}, skewed, false},
		{"one after the other had it, with a gap where no clocks differ", History{well("w", 0, 60*s), grant(7*s, 1, 4*s), grant(13*s+s/2, 2, 9*s), ran10}, at20(nil), true},
		{"who had it before kept it until what is left is no more than by what clocks differ", History{well("w", 0, 60*s), grant(9*s-1, 1, 3*s+375*time.Millisecond)}, skewed, false},
		{"who had it before kept it until more was left than by what clocks differ", History{well("w", 0, 60*s), grant(9*s-1, 1, 3*s+374*time.Millisecond)}, skewed, true},
		{"who had it before kept it until no more was left than who looks may take", History{always, grant(9*s-1, 1, 4*s)}, at20(func(o *Omission) { o.Look = 2 * s }), false},
		{"begun by nobody, when Grace is shorter than who looks may take", History{always, elsewhere}, at20(func(o *Omission) { o.Grace = s / 4 }), true},
		{"it was had for another time before", History{always, grant(0, 9, s), run(10*s, s, 2*s, 9, Okay, 3*s), grant(10*s, 1, 9*s)}, at20(nil), true},
		{"a manual run that was asked for later had it", History{always, grant(10*s, 1, 9*s), manually(run(30*s, 10*s, 16*s, 1, Okay, 0))}, at20(nil), false},
		{"who had it was claiming for an earlier time, and another told of that", History{always, with(grant(10*s, 1, 9*s), before10), with(kept(12*s, s, before10), other), with(kept(12*s, s, before10), func(e *Event) { e.Token = 9 })}, at20(nil), true},
		{"who had it kept it, and gave an earlier time up", History{always, grant(10*s, 1, 9*s), kept(12*s, s, same), markRaised(19*s-s/10, 1, 10*s)}, at20(nil), false},

		{"who had it before is seen by all a TTL after its end", History{always, grant(9*s+s/2, 1, s), grant(12*s, 2, 9*s), ran10}, observed, false},
		{"who had it before is not seen by all a TTL after its end", History{always, grant(9*s+s/2, 1, s), grant(12*s+1, 2, 9*s), ran10}, observed, true},
		{"who had it before for very long is looked at later", History{always, grant(s, 1, s/2), kept(10*s, s/2, same), grant(12*s+s/10, 2, 9*s), ran10}, observed, false},
		{"who had it before has kept it for longer than it may be seen", History{always, grant(7*s, 1, 4*s), kept(12*s, 4*s, same)}, observed, false},
		{"who had it before may be seen to have it at the last call, too", History{always, grant(9*s+s/2, 1, 3*s+s/2), grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, observed, false},
		{"who had it before is not seen to have it at the last call", History{always, grant(9*s+s/2, 1, 2*s+7*s/16-1), grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, observed, true},
		{"who had it before may have been seen to have it at the last call, but another had it since", History{always, grant(9*s+s/2, 1, 3*s+s/2),
			grant(13*s+s/10, 2, s), run(10*s, 13*s+s/5, 13*s+2*s/5, 2, Okay, 0), markRaised(13*s+s/2, 2, 5*s), grant(14*s+19*s/20, 3, 9*s), run(10*s, 15*s, 16*s, 3, Okay, 17*s)}, observed, true},
		{"who had it before had it no longer at the last call, where all know", History{always, grant(9*s+s/2, 1, 3*s+s/2), grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, at20(nil), true},
		{"who had it before had released it at the last call", History{always, grant(9*s+s/2, 1, 3*s+s/2), markRaised(12*s, 1, 10*s), grant(14*s+19*s/20, 2, 9*s), run(10*s, 15*s, 16*s, 2, Okay, 17*s)}, observed, true},
		{"somebody has found late that who had it before has it no longer", History{always, grant(0, 1, 5*s), grant(12*s, 2, 9*s), ran10}, observed, false},

		{"who was well waited for another whose name is no group's", named("other/1", waited(toldAt("w", 10*s+2))), grouped, true},
		{"its user was refused the name of a group", waited(with(toldAt("w", 10*s+2), func(e *Event) { e.Kind = Take })), grouped, true},
		{"who was well was not refused the name of a group", waited(with(toldAt("w", 10*s+2), func(e *Event) { e.Result = Failed })), grouped, true},
		{"who was well was told just in time", waited(toldAt("w", 12*s+3*s/4+1)), grouped, false},
		{"who was well waited for one of whom nothing is known", waited(with(toldAt("w", 10*s+2), func(e *Event) { e.Token = 8 })), grouped, true},
		{"who was well waited for two", waited(toldAt("w", 10*s+2), with(grant(9*s, 6, s), func(e *Event) { e.Name = "group/0" }), with(toldAt("w", 10*s+4), func(e *Event) { e.Name, e.Token = "group/0", 6 })), grouped, false},
		{"the other of two that were well did not wait for another", append(waited(toldAt("u", 10*s+2)), well("u", 0, 60*s)), grouped, true},

		{"somebody begins an earlier time by a clock that is ahead", History{well("w", 0, 60*s), grant(4*s, 1, s), run(15*s, 4*s+s/2, 5*s, 1, Okay, 6*s)}, skewed, true},
		{"a person begins a later time by a clock that is ahead", History{well("w", 0, 60*s), grant(13*s, 1, 9*s), manually(run(25*s, 14*s, 15*s, 1, Okay, 16*s))}, skewed, true},
		{"it may be seen to linger, and a later time is begun as Grace ends", overtaking(thirty(15 * s)), spaced, false},
		{"it may be seen to linger, and a later time is begun before Grace ends", overtaking(thirty(15*s - 1)), spaced, true},
		{"it may be seen to linger, and a later time is begun when it lingers no more", overtaking(thirty(20*s + 1)), spaced, true},
		{"it may be seen to linger, and an earlier time is begun", overtaking(with(thirty(20*s), before10)), spaced, true},
		{"it may be seen to linger, and a person begins a later time", overtaking(manually(thirty(20 * s))), spaced, true},
		{"it may be seen to linger, and one that was well with another job begins a later time", overtaking(thirty(20*s), with(well("v", 0, 60*s), other)), spaced, false},
		{"it may be seen to linger, and one that was well soon begins a later time", overtaking(thirty(20*s), well("v", 10*s+1, 60*s)), spaced, false},
		{"it may be seen to linger, and one that was well as it was due begins a later time", overtaking(thirty(20*s), well("v", 10*s, 60*s)), spaced, true},
		{"it may be seen to linger, and one that was well until Grace is nearly over begins a later time", overtaking(thirty(20*s), well("v", 0, 15*s-1)), spaced, false},
		{"it may be seen to linger, and one that was well until Grace is over begins a later time", overtaking(thirty(20*s), well("v", 0, 15*s)), spaced, true},

		{"after a delay nobody claims it, and who was well does not know the job", append(repeated(same)[1:], with(always, other)), delayed, false},
		{"after a delay nobody claims it, and nothing is known of the lease before", History{always, elsewhere, run(2*s, 2*s, 3*s, 5, Okay, 4*s)}, delayed, true},
		{"after a delay somebody claims it late, and there is a clock", repeated(same, grant(14*s, 2, s)), repeats(func(r *JobRule) { r.Omission.Spaced = 5 * s }), true},
		{"after a run that is not recorded nobody claims it", repeated(func(e *Event) { e.Recorded = 0 }), delayed, false},
		{"after a run that failed nobody claims it", repeated(func(e *Event) { e.Result = Failed }), delayed, false},
		{"after a delay Grace ends as the history does", repeated(same), repeats(func(r *JobRule) { r.Omission.Until = 13 * s }), true},
		{"after a delay Grace ends when the history has", repeated(same), repeats(func(r *JobRule) { r.Omission.Until = 13*s - 1 }), false},
		{"after a delay it may have been paused as Grace ended", repeated(same), doubted(13*s, 20*s), false},
		{"after a delay it may have been paused when Grace had ended", repeated(same), doubted(13*s+1, 20*s), true},
		{"after a delay it may have been paused until the run before began", repeated(same), doubted(0, 2*s), false},
		{"after a delay it may have been paused before the run before", repeated(same), doubted(0, 2*s-1), true},
		{"just before the delay is over somebody claims it", repeated(same, grant(15*s/2-1, 2, s)), delayed, false},
		{"too long before the delay is over somebody claims it", repeated(same, grant(15*s/2-2, 2, s)), delayed, true},
		{"just before the delay is over by two clocks somebody claims it", repeated(same, grant(11*s/2-1, 2, s)), skewedDelay, false},
		{"too long before the delay is over by two clocks somebody claims it", repeated(same, grant(11*s/2-2, 2, s)), skewedDelay, true},
		{"after a delay somebody claims it as Grace ends", repeated(same, grant(13*s-1, 2, s)), delayed, false},
		{"after a delay somebody claims it when Grace has ended", repeated(same, grant(13*s, 2, s)), delayed, true},
		{"after a delay somebody was well as it was due", append(repeated(same)[1:], well("w", 8*s, 13*s)), delayed, true},
		{"after a delay nobody was well as it was due", append(repeated(same)[1:], well("w", 8*s+1, 60*s)), delayed, false},
		{"after a delay somebody claims it as Grace after its jitter ends", repeated(same, with(grant(15*s-1, 2, s), due8)), jittered, false},
		{"after a delay somebody claims it when Grace after its jitter has ended", repeated(same, with(grant(15*s, 2, s), due8)), jittered, true},
		{"after a delay somebody claims it as Grace after another jitter ends", repeated(same, with(grant(17*s-2, 2, s), due9)), jittered, false},
		{"after a delay it is begun as Grace after its jitter ends", repeated(same, with(run(8*s, 15*s, 16*s, 2, Okay, 17*s), due8)), jittered, false},
		{"after a delay it is begun when Grace after its jitter has ended", repeated(same, with(run(8*s, 15*s+1, 16*s, 2, Okay, 17*s), due8)), jittered, true},
		{"after a delay and its jitter nobody claims it", repeated(same), jittered, true},
		{"after a delay and the most of its jitter Grace ends when the history has", repeated(same), func(r JobRule) JobRule { r.Omission.Until--; return r }(jittered), false},
		{"after a delay nobody was well until Grace after the most of its jitter", append(repeated(same)[1:], well("w", 0, 17*s-1)), jittered, false},
		{"after a delay it may have been paused as Grace after its jitter ended", repeated(same), func(r JobRule) JobRule { r.Omission.Doubt = []Span{{17 * s, 20 * s}}; return r }(jittered), false},
		{"after a delay somebody asked for it within its jitter", repeated(same, manually(run(8*s, 17*s, 18*s, 1, Okay, 19*s))), jittered, false},
		{"after a delay it is begun again under the lease before", repeated(same, run(8*s, 9*s, 10*s, 1, Okay, 11*s)), delayed, true},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			v := Check(test.h, Rules{Jobs: []JobRule{test.rule}})
			found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Checker == OmissionChecker })
			if found != test.bad {
				t.Errorf("found %v, want %v: %v", found, test.bad, v.Violations)
			}
		})
	}
}

// TestOmissionShows has the excerpt of a time that nobody began, though it was claimed: what was asked of the store about the job, and what began, from two times
// Grace before.
func TestOmissionShows(t *testing.T) {
	rule := JobRule{Name: "job", Record: "job", Next: everyTen, Zero: 10_000, Omission: Omission{Grace: 2 * s, Look: s / 2, Until: 12 * s}}
	always, other := well("w", 0, 60*s), func(e *Event) { e.Name = "other" }
	extended := with(markRaised(8*s, 1, 0), func(e *Event) { e.Kind = Extend })
	shown := History{with(grant(6*s, 5, s), other), grant(7*s, 1, s), extended, markRaised(9*s-2, 1, 0), manually(run(10*s, 9*s-1, 9*s, 1, Okay, 0)), {Kind: Fault, At: 9 * s, Fault: "crash"}, grant(12*s, 2, s)}
	hidden := History{with(grant(6*s-1, 5, s), other), with(extended, other), with(markRaised(9*s, 5, 0), other), with(run(10*s, 9*s, 9*s, 1, Okay, 0), other), with(belief(9*s, 10*s, "a", 1), func(e *Event) { e.Name = "job" }), grant(12*s+1, 3, s)}
	found := func(h History) []Violation {
		return slices.DeleteFunc(Check(h, Rules{Jobs: []JobRule{rule}}).Violations, func(v Violation) bool { return v.Checker != OmissionChecker })
	}
	if v := found(slices.Concat(History{always}, shown, hidden)); len(v) != 1 || !slices.Equal(v[0].Excerpt, shown) {
		t.Errorf("found %v, want %v", v, shown)
	}
	if v := found(append(History{always}, slices.Repeat(shown[:1], 30)...)); len(v) != 1 || len(v[0].Excerpt) != 25 {
		t.Errorf("30 claims: %v", v)
	}
}
