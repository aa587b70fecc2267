/* The protocol of one name: a store, two clients, and everybody else. doc.go says what it shows and what it leaves out.
 *
 * Time is a true clock of ticks, and one may pass between any two steps. The store goes by it. Nothing is kept as an instant: the record
 * and the clients count ticks since and ticks left, so there are finitely many states, and the search has no end in time.
 *
 * A client makes attempts, each with a holder of its own. A request that was sent may be carried out at any later time, any number of
 * times, or never, and so may one of an attempt that is over. The latter are taken together with all that other clients do: the holder
 * OTHERS may ask for the name, extend, release and stand in line at any time. So the two clients stand for any two of any number.
 *
 * LINE makes the store keep a line. Each other name in an #ifdef is a defect, to be found.
 */
#ifndef TTL
#define TTL 3
#endif
#ifndef DRIFT
#define DRIFT 1 /* how much the clock of a client may fall behind in the time of a lease */
#endif
#ifndef MARGIN
#define MARGIN 1 /* what a client subtracts for that */
#endif

#define NOBODY 0
#define OTHERS 3

#define less(a, b)   (((a) - (b)) * ((a) > (b))) /* 0 at least */
#define most(a, b)   ((a) * ((a) > (b)) + (b) * ((a) <= (b)))
#define later(ticks) (ticks + (ticks < TTL))

/* The record: who has the lease, how many ticks are left of it, and how many ago it was granted, TTL at most. */
byte holder, left, age;

mtype = {
	idle,    /* there is no attempt */
	asking,  /* a request for the name has been sent */
	granted, /* its answer is on its way: the lease */
	held,    /* its answer is on its way: somebody has the name */
	waiting, /* it was refused, or nobody knows what became of it */
	sure     /* it believes that it has the lease */
};

typedef Client {
	mtype is;
	byte since;   /* ticks since the request was sent from which a lease is counted, TTL at most */
	byte was;     /* how old the lease was when the answer left */
	byte belief;  /* ticks for which the client goes on to believe, by the true clock */
	bool renews;  /* an extension has been sent, and nobody has stopped waiting for it */
	bool renewed; /* it has been carried out, and its answer is on its way */
	byte before;  /* ticks since it was sent, TTL at most */
	bool take;    /* requests for the name of this attempt may come once more */
	bool extend;  /* so may extensions */
#ifdef LINE
	bool waits; /* it stands in line */
	bool known; /* since the request whose answer has come, or is on its way */
	byte lag;   /* ticks for which that request was on its way */
	byte news   /* ticks left of what was handed over to that request, as the client reckons; 0 if nothing was */
#endif
}
Client c[2];

#define mine  (holder == me + 1)
#define other (1 - me)

inline grant(to) { holder = to; left = TTL; age = 0 }

inline free() { holder = NOBODY; left = 0; age = 0 }

#ifdef LINE
inline hand(i) {
#ifdef ANY_NEWS
	c[i].news = TTL;
#else
	c[i].news = c[i].known * less(TTL, c[i].lag);
#endif
	c[i].waits = false; c[i].known = false; c[i].lag = 0;
	grant(i + 1)
}

/* The client knows nothing of the request that stands in line, if one does. */
inline unknown() {
	c[me].known = false; c[me].lag = 0;
#ifndef ANY_NEWS
	c[me].news = 0
#endif
}
#endif

/* A release hands the name over in the same step. Who is first in line makes no difference here, so it is anybody; and of the others
 * somebody may always stand there. */
inline release() {
	free();
#ifdef LINE
	if
	:: true
	:: c[0].waits -> hand(0)
	:: c[1].waits -> hand(1)
	:: grant(OTHERS)
	fi
#endif
}

inline believe(ticks) {
	c[me].belief = ticks;
	assert(c[me].belief == 0 || c[other].belief == 0)
}

/* What the attempt has is among what is left of attempts that are over. */
inline over() {
	if
	:: mine -> holder = OTHERS
	:: else
	fi;
	c[me].is = idle; c[me].since = 0; c[me].was = 0; c[me].belief = 0;
	c[me].renews = false; c[me].renewed = false; c[me].before = 0;
	c[me].take = false; c[me].extend = false;
#ifdef LINE
	c[me].waits = false; c[me].known = false; c[me].lag = 0; c[me].news = 0;
#endif
}

proctype client(byte me) {
	do
	/* It asks. */
	:: atomic { c[me].is == idle -> c[me].is = asking; c[me].take = true }
	:: atomic { c[me].is == asking ->
		if
		:: mine -> c[me].is = granted; c[me].was = age
		:: holder == NOBODY -> grant(me + 1); c[me].is = granted
#ifdef GRANTS_HELD
		:: holder != NOBODY && !mine -> grant(me + 1); c[me].is = granted
#endif
		:: else ->
#ifdef LINE
			c[me].waits = true; c[me].known = true; c[me].lag = c[me].since;
#endif
			c[me].is = held
		fi }
	:: atomic { c[me].is == granted ->
#if defined(DEADLINE_FROM_REPLY)
		believe(TTL + DRIFT - MARGIN);
#elif defined(LINE)
		believe(less(TTL + DRIFT, MARGIN + c[me].since + c[me].was));
#else
		believe(less(TTL + DRIFT, MARGIN + c[me].since));
#endif
		c[me].was = 0; c[me].since = 0;
		if
		:: c[me].belief > 0 -> c[me].is = sure
		:: else -> over() /* too late */
		fi }
	:: atomic { c[me].is == held -> c[me].is = waiting }
	/* The answer is lost, or nobody waits for it any longer. */
	:: atomic { c[me].is == asking || c[me].is == granted || c[me].is == held ->
#ifdef LINE
		unknown();
#endif
		c[me].is = waiting; c[me].was = 0 }
	/* It asks again. Without a line, what is granted then may be what an earlier request has asked for, and counts from that. */
	:: atomic { c[me].is == waiting ->
#ifdef LINE
		unknown();
#endif
#if defined(LINE) || defined(DEADLINE_MOVES)
		c[me].since = 0;
#endif
		c[me].is = asking }
	:: atomic { c[me].is == waiting -> over() }
#ifdef LINE
	/* News of a hand-over tells how long it was after the request that it answers. */
	:: atomic { c[me].is == waiting && c[me].news > 0 ->
#ifdef ANY_NEWS
		believe(less(TTL + DRIFT, MARGIN + c[me].since));
#else
		believe(less(c[me].news + DRIFT, MARGIN));
#endif
		c[me].news = 0;
		if
		:: c[me].belief > 0 -> c[me].is = sure; c[me].since = 0
		:: else
		fi }
#endif
	/* It renews. */
	:: atomic { c[me].is == sure && !c[me].renews -> c[me].renews = true; c[me].extend = true }
	:: atomic { c[me].renews && !c[me].renewed && mine -> left = TTL; c[me].renewed = true }
	:: atomic { c[me].renewed ->
#ifdef RENEWED_FROM_REPLY
		believe(TTL + DRIFT - MARGIN);
#else
		believe(most(c[me].belief, less(TTL + DRIFT, MARGIN + c[me].before)));
#endif
		c[me].renews = false; c[me].renewed = false; c[me].before = 0 }
	:: atomic { c[me].renews -> c[me].renews = false; c[me].renewed = false; c[me].before = 0 } /* the answer is lost */
	/* It believes no longer and then releases, or dies. The release is one of those of attempts that are over. */
#ifdef RELEASE_FIRST
	:: atomic { c[me].is == sure && mine -> release() }
#endif
	:: atomic { c[me].is == sure -> over() }
	/* What it has sent comes late, or once more. */
	:: atomic { c[me].take && !mine ->
		if
		:: holder == NOBODY -> grant(me + 1)
#ifdef LINE
		:: else -> c[me].waits = true; unknown()
#endif
		fi }
	:: atomic { c[me].extend && mine -> left = TTL }
	od
}

active proctype others() {
	do
	:: atomic { holder == NOBODY -> grant(OTHERS) }
	:: atomic { holder == OTHERS -> left = TTL }
#ifdef RELEASE_BY_NAME
	:: atomic { holder != NOBODY -> release() }
#else
	:: atomic { holder == OTHERS -> release() }
#endif
#ifdef FORGETS
	:: atomic { holder != NOBODY -> free() }
#endif
	od
}

inline pass() {
	if
	:: c[me].is == asking || c[me].is == granted || c[me].is == held || c[me].is == waiting -> c[me].since = later(c[me].since)
	:: else
	fi;
	if
	:: c[me].renews -> c[me].before = later(c[me].before)
	:: else
	fi;
#ifdef LINE
	c[me].news = less(c[me].news, 1);
#endif
	c[me].belief = less(c[me].belief, 1);
	if
	:: c[me].is == sure && c[me].belief == 0 -> over()
	:: else
	fi;
	assert(c[me].belief == 0 || mine)
}

active proctype clock() {
	byte me;
	do
	:: atomic {
		if
		:: left > 1 -> left--; age = later(age)
		:: left == 1 -> free()
		:: else
		fi;
		me = 0; pass();
		me = 1; pass();
		me = 0 }
	od
}

init { atomic { c[0].is = idle; c[1].is = idle; run client(0); run client(1) } }
