package embedded

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// heldSyncs is a disk whose syncs a test ends by hand.
type heldSyncs struct{ began, end chan written }

func (d heldSyncs) sync(w written) error {
	d.began <- w
	<-d.end
	return nil
}

func heldCommits(t *testing.T) (*commits, heldSyncs) {
	d := heldSyncs{make(chan written), make(chan written)}
	c := newCommits(d.sync, slog.New(slog.DiscardHandler))
	t.Cleanup(c.close)
	return c, d
}

// append carries out a request to produce.
func (c *commits) append(logs ...partition) {
	n := c.asked(changesRecords)
	c.produces(logs)
	c.carriedOut(request{number: n, kind: changesRecords})
}

// read waits as the answer to a reader of records does.
func (c *commits) read() error { return c.wait(readsLog) }

// A reader that a record wakes waits for the sync that the record's producer waits for, not for the one after it.
func TestAnAnswerSharesASyncThatCoversIt(t *testing.T) {
	t.Parallel()
	c, disk := heldCommits(t)
	at := partition{"t", 0}
	c.append(at)
	var g errgroup.Group
	g.Go(c.read)
	require.Equal(t, written{logs: []partition{at}}, <-disk.began)
	g.Go(c.read)
	close(disk.end) // a second sync would not begin: nobody receives
	require.NoError(t, g.Wait())

	c.append(at)
	g.Go(c.read)
	<-disk.began
}

// What was written, or may have been, while a sync was under way belongs to the next.
func TestAnAnswerWaitsForASyncThatBeganAfterIt(t *testing.T) {
	t.Parallel()
	c, disk := heldCommits(t)
	at, other := partition{"t", 0}, partition{"t", 1}
	c.append(at)
	var g, later errgroup.Group
	g.Go(c.read)
	<-disk.began
	n := c.asked(changesRecords)
	c.produces([]partition{other})
	later.Go(c.read) // of a reader that sees the record before its producer is answered
	disk.end <- written{}
	require.NoError(t, g.Wait())
	require.Equal(t, written{logs: []partition{other}}, <-disk.began)
	c.carriedOut(request{number: n, kind: changesRecords})
	g.Go(c.read)
	disk.end <- written{}
	require.NoError(t, later.Wait())
	require.Equal(t, written{logs: []partition{other}}, <-disk.began, "it may not have been complete when the sync before this one began")
	disk.end <- written{}
	require.NoError(t, g.Wait())
	require.NoError(t, c.read(), "nothing is left to sync")
}

// A change that is not known to concern certain files concerns all of them.
func TestOtherChangesAreSyncedWithEverything(t *testing.T) {
	t.Parallel()
	c, disk := heldCommits(t)
	for kind, want := range map[requestKind]written{changesGroups: {groups: true}, changesAny: {everything: true}} {
		n := c.asked(kind)
		c.carriedOut(request{number: n, kind: kind})
		var g errgroup.Group
		g.Go(func() error { return c.wait(kind) })
		require.Equal(t, want, <-disk.began)
		disk.end <- written{}
		require.NoError(t, g.Wait())
	}
}

// A reader of records does not wait for the offsets of a group, nor a reader of those for records.
func TestAnAnswerWaitsOnlyForWhatItReports(t *testing.T) {
	t.Parallel()
	c, disk := heldCommits(t)
	at := partition{"t", 0}
	n := c.asked(changesGroups)
	require.NoError(t, c.read())
	c.carriedOut(request{number: n, kind: changesGroups})
	var groups, records errgroup.Group
	groups.Go(func() error { return c.wait(readsGroups) })
	require.Equal(t, written{groups: true}, <-disk.began)
	require.NoError(t, c.read())
	disk.end <- written{}
	require.NoError(t, groups.Wait())

	c.append(at)
	require.NoError(t, c.wait(readsGroups))
	records.Go(c.read)
	require.Equal(t, written{logs: []partition{at}}, <-disk.began)
	disk.end <- written{}
	require.NoError(t, records.Wait())
}
