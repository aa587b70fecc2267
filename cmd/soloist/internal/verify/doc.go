// Package verify shows on a store of the user's own that what soloist promises holds there. Processes run the real
// client against the store under their own namespace; some are killed, some paused, and some of what they ask and are
// answered is lost. Each writes down what it asked, was told and believed, on one clock that they share; at the end
// their histories are put together and checked.
//
// A run counts only if it could have failed: a client that is unsafe on purpose is part of it, and must be caught.
package verify
