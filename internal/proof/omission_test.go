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
	tried := skewed
	tried.Omission.Tries = true
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
		{"it was to have been begun once, and the store was not told", History{always, grant(10*s, 1, 9*s)}, once, true},
		{"the store was told of a beginning that may come again", History{always, grant(10*s, 1, 9*s), told}, at20(nil), true},
		{"it has had its attempt", History{always, grant(10*s, 1, 9*s)}, at20(func(o *Omission) { o.Tries = true }), false},
		{"it has had its attempt by a clock that is ahead", History{well("w", 0, 60*s), grant(9*s, 1, s)}, tried, false},
		{"it has had its attempt before it was due by any clock", History{well("w", 0, 60*s), grant(8*s-2, 1, s)}, tried, true},
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
