package storetest

import (
	"slices"

	"github.com/soloist-dev/soloist/store"
)

// The needs of laws about what not every store can do.
var (
	sweeps  = capable[store.Sweeper]
	waits   = capable[store.Waiter]
	chooses = capable[store.Chooser]
	pings   = capable[store.Pinger]
	probes  = capable[store.Prober]
)

// laws is the suite. The checks are in the file of their subject.
var laws = slices.Concat(
	leaseLaws,
	tokenLaws,
	staleLaws,
	lingerLaws,
	markLaws,
	stateLaws,
	retainLaws,
	batchLaws,
	textLaws,
	listLaws,
	callLaws,
	crowdLaws,
	waitLaws,
	chooseLaws,
	queueLaws,
	corruptLaws,
	tellingLaws,
)
