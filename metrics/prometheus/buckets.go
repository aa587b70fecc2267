package prommetrics

// The upper bounds of the buckets of histograms, in seconds. Each is a round number that people ask for, and a series for each combination of
// labels; so there are about 15.
var (
	// From a command that does almost nothing to a batch that takes half a day. Above a minute the question is not how fast a run is but
	// whether it comes close to its AtMost, so the steps are coarse.
	runBuckets = []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 12 * 3600}

	// A run that starts in time has a delay of a few requests to the store. One whose job a dead replica held has up to a TTL more, which is 30 s by
	// default. A longer delay means that no replica was there, or that all were busy.
	delayBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

	// A free name takes one request. A name that is held takes as long as its holder works, or the TTL if it died.
	waitBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}

	// From a store on the same host to a request that is given up: 5 s is the default RequestTimeout. A request that waits in the store's queue
	// takes up to a TTL more.
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

	// 1024 is the most that a client puts into one request.
	batchBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)
