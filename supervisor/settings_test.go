package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// knows makes a candidate start with the settings of a record: finished tasks are remembered for d.
func knows(offset int64, d time.Duration) func(*candidate) {
	return func(c *candidate) {
		c.cfg.SettingsOffset, c.cfg.Settings.RememberFor = offset, events.Duration(d)
	}
}

// adopted returns the settings facts of the log, as offset and remember_for.
func (b *bench) adopted() (list []string, causes []events.Cause) {
	_, accepted, _ := b.read()
	for _, f := range accepted {
		if s, ok := f.Body.(*events.SettingsAdopted); ok {
			list = append(list, fmt.Sprintf("%d %s", s.Offset, s.Settings.RememberFor))
			causes = append(causes, f.Cause)
		}
	}
	return list, causes
}

// A node that has not read the latest settings takes the partition over. It decides by those that the partition has adopted: it
// neither brings the older ones back nor forgets a task by them.
func TestAnOwnerWithOlderSettingsDoesNotBringThemBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", knows(5, time.Hour)).own()
	b.submit("t1", "one", "")
	a.run()
	b.report(completed(a.requests()[0]))
	a.run()
	for _, older := range []struct {
		name   string
		offset int64
	}{{"B", 4}, {"C", 0}} {
		c := b.candidate(older.name, knows(older.offset, time.Minute)).own()
		for range 200 {
			c.pass(time.Second)
		}
		b.task("t1") // is still there
	}
	list, causes := b.adopted()
	require.Equal(t, []string{"5 1h"}, list)
	require.Equal(t, []events.Cause{events.CauseDefinition(5)}, causes)
}

// A change of the settings takes effect at once, without a restart and without any other input.
func TestAnOwnerAdoptsNewSettingsWhileItOwns(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", knows(0, time.Hour)).own()
	b.submit("t1", "one", "")
	a.run()
	b.report(completed(a.requests()[0]))
	a.run()
	a.pass(2 * time.Minute)
	b.task("t1")

	shorter := a.cfg.Settings
	shorter.RememberFor = events.Duration(time.Minute)
	a.o.SetSettings(b.now, shorter, 7, 1)
	a.run()
	list, _ := b.adopted()
	require.Equal(t, []string{"0 1h", "7 1m"}, list)
	a.o.SetSettings(b.now, a.cfg.Settings, 6, 1) // read late
	a.o.SetSettings(b.now, a.cfg.Settings, 7, 1) // read again
	a.forget("t1")
	list, _ = b.adopted()
	require.Len(t, list, 2)
	a.restart() // a new process on the store, with the settings of its start
	a.own()
	list, _ = b.adopted()
	require.Len(t, list, 2)
}

// Each limit that an owner applies is the one that the partition has adopted, and not that of the process.
func TestLimitsAreThoseThatThePartitionAdopted(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", knows(3, time.Hour), func(c *candidate) { c.cfg.Settings.SubmissionBytes = 100 }).own()
	a.run()
	c := b.candidate("B", knows(2, time.Hour)).own()
	b.submit("t1", "one", `,"input":{"pad":"`+strings.Repeat("x", 100)+`"}`)
	c.run()
	require.Equal(t, []string{"InputRejected"}, b.names())
}

// A misplaced submission is sent home twice. The task of the first copy ends and is forgotten. Then tasks are remembered for longer,
// and the second copy arrives: it is young enough for the new settings, but nobody can say any more that it is a duplicate.
func TestRememberingLongerDoesNotRunACopyAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", knows(3, time.Minute)).own()
	forwarded := events.Record{Value: []byte(`{"id":"t1","workflow":"one"}`), Headers: []events.Header{
		{Key: events.HeaderForwardedFrom, Value: []byte("9/4")}, {Key: events.HeaderForwardedAt, Value: []byte(b.now.String())},
	}}
	b.put(events.Submissions, forwarded)
	a.run()
	b.report(completed(a.requests()[0]))
	a.run()
	a.forget("t1")

	longer := a.cfg.Settings
	longer.RememberFor = events.Duration(24 * time.Hour)
	a.o.SetSettings(b.now, longer, 4, 1)
	b.put(events.Submissions, forwarded)
	a.run()
	require.NotContains(t, b.names()[4:], "Submitted", "%v", b.names())
	require.Contains(t, b.names(), "InputRejected")

	fresh := forwarded
	fresh.Headers = []events.Header{forwarded.Headers[0], {Key: events.HeaderForwardedAt, Value: []byte(b.now.String())}}
	b.put(events.Submissions, fresh)
	a.run()
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
}
