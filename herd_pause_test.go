package soloist

import (
	"testing"
	"time"
)

// A pause that may be over by now does not make a job done for the others of its herd; one that is known to hold does.
func TestAnOldPauseDoesNotEndAHerd(t *testing.T) {
	paused := &task{ctl: control{Paused: &Pause{}}}
	now := time.Now()
	if !paused.lacks(now.UnixMilli(), false, now) {
		t.Error("with controls that have changed since they were read, a paused job counts as done")
	}
	if paused.lacks(now.UnixMilli(), true, now) {
		t.Error("a paused job is to be looked at for a time that falls into the pause")
	}
}
