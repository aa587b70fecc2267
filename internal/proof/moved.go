package proof

// Moved leaves out of the history of a fleet that moves between two stores, by package store/move, what refusals tell then and no single store would tell, and
// allows for releases of which no more than a part took effect.
func Moved(h History) History { return settled(grantedTokens(inPart(h))) }

// inPart adds, to each release without an outcome that leaves a state, one that leaves none: if it reached one store alone, and a replica in the other middle
// phase was granted the name next, the name was free, and the state is that of before. No one can see which of two states with one mark is newer.
func inPart(h History) History {
	for _, e := range h {
		if e.Kind == Release && e.Result == Unknown && e.State != 0 {
			e.State, e.Mark, e.Linger = 0, 0, 0
			h = append(h, e)
		}
	}
	return h
}

// grantedTokens leaves out refusals that tell a token which nobody was granted: while replicas are in both middle phases, it may be that of the other store.
func grantedTokens(h History) History {
	type token struct {
		name string
		n    int64
	}
	granted := map[token]bool{}
	for _, e := range h {
		if e.Result == Granted {
			granted[token{e.Name, e.Token}] = true
		}
	}
	for i, e := range h {
		if e.Kind == Acquire && e.Result == Held && !granted[token{e.Name, e.Token}] {
			h[i].Result = Failed
		}
	}
	return h
}

// settled leaves out what refusals tell of a state whose write had no outcome: if its writer died between the two stores, replicas in one middle phase
// see it, and the next grant, in the other one, settles that it was not written. What a grant tells is always judged.
func settled(h History) History {
	type write struct {
		name  string
		state uint64
	}
	open := map[write]bool{}
	for _, e := range h {
		if e.Result == Unknown && e.State != 0 {
			if e.State == cleared {
				e.State = 0 // as a refusal tells it
			}
			open[write{e.Name, e.State}] = true
		}
	}
	for i, e := range h {
		if e.Result == Done && open[write{e.Name, e.State}] {
			h[i].Seen = unseen
		}
	}
	return h
}
