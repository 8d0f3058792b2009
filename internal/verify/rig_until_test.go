package verify_test

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// ends says how many facts of a name there are of tasks with a prefix: exactly n, or at least.
type ends struct {
	name    events.Name
	prefix  string
	n       int
	atLeast bool
}

// allEnds are the facts that each run of the rig has in the end.
var allEnds = []ends{
	{events.NameTaskProcessed, "", 4*4 + 6 + 3 + 4 + 4 + 2*4 + 4 + 2, true},
	{events.NameTaskProcessed, "many-", 2, false},
	{events.NameTaskUndone, "most-", 2, false},
	{events.NameRunBegun, "again-", 4, false},
	{events.NameTaskProcessed, "again-", 2 * 4, false},
	{events.NameRequestHeld, "early-", 4, false},
	{events.NameTimeout, "sig-", 2, false},
	{events.NameSoftLimitPassed, "sig-", 2, true},
	{events.NameTaskUndone, "", 4*4 + 2, true},
	{events.NameTaskParked, "park-", 4, false},
	{events.NameTaskReminded, "park-", 4 * events.MaxReminders, false},
	{events.NameInputRejected, "ghost-", 4, false},
}

// untilAll waits for all these facts.
func (r *rig) untilAll(all []ends) {
	r.t.Helper()
	r.lacks(func(w *recorded) string {
		for _, x := range all {
			if n := w.has(x.name, x.prefix); n != x.n && (!x.atLeast || n < x.n) {
				return fmt.Sprintf("%d instead of %d %s of tasks %q*", n, x.n, x.name, x.prefix)
			}
		}
		return ""
	})
}

// until waits for a condition on the record of events.
func (r *rig) until(what string, done func(log *recorded) bool) *recorded {
	r.t.Helper()
	return r.lacks(func(log *recorded) string {
		if done(log) {
			return ""
		}
		return what
	})
}

// ended returns the last of a task's facts that ends it, or "no end", by the task.
func (w *recorded) ended() map[string]string {
	all := map[string]string{}
	for _, part := range w.topics["sagalog.events"] {
		for _, x := range part {
			name, task := nameOf(x), string(x.Key)
			switch name {
			case events.NameSubmitted:
				all[task] = "no end"
			case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskParked:
				all[task] = string(name)
			}
		}
	}
	return all
}

// lacks waits until the record of events lacks nothing.
func (r *rig) lacks(missing func(log *recorded) string) *recorded {
	r.t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for {
		w := r.record()
		what := missing(w)
		if what == "" {
			return w
		}
		require.True(r.t, time.Now().Before(deadline), "waited too long for: %s; the ends are %v", what, w.ended())
		<-time.After(50 * time.Millisecond)
	}
}
