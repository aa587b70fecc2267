package storetest

import "slices"

// laws is the suite. The checks are in the file of their subject.
var laws = slices.Concat(
	leaseLaws,
	tokenLaws,
	staleLaws,
	lingerLaws,
	markLaws,
	stateLaws,
	retainLaws,
	fillLaws,
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
	failLaws,
)
