package scheduler_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

func tombstone(t *testing.T, c *scheduler.Catalog, workflow string, version int) {
	t.Helper()
	v, ok := c.Version(workflow, version)
	require.True(t, ok)
	r := scheduler.EncodeDeletion(&v, events.Subject{ID: "1", Source: "/test", Time: 5000})
	require.Nil(t, r.Value)
	require.NoError(t, c.Apply(&r))
}

func TestADeletedVersionKeepsItsNumber(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	var records []*events.Record
	for i := range 3 {
		records = append(records, definitionRecord(t, head+"  a: {agent: a"+strconv.Itoa(i)+"}", events.Instant(i+1)))
		require.NoError(t, c.Apply(records[i]))
	}
	first, _ := c.Version("w", 1)
	tombstone(t, c, "w", 1)
	require.True(t, c.Deleted("w", first.Hash))
	for _, find := range []func() (scheduler.Version, bool){
		func() (scheduler.Version, bool) { return c.Version("w", 1) }, func() (scheduler.Version, bool) { return c.ByHash("w", first.Hash) },
	} {
		v, ok := find()
		require.False(t, ok)
		require.True(t, v.Deleted)
		require.Empty(t, v.Body)
	}
	require.Len(t, c.Versions("w"), 2)
	current, ok := c.Current("w")
	require.True(t, ok)
	require.Equal(t, 3, current.Version)
	require.Equal(t, 1, c.Ordinal("w", first.Hash))
	require.Equal(t, 4, c.Ordinal("w", "new"))

	// the same content again gets its number and becomes current
	require.NoError(t, c.Apply(records[0]))
	current, _ = c.Current("w")
	require.Equal(t, 1, current.Version)
	require.Equal(t, string(records[0].Value), string(current.Body))
	require.False(t, c.Deleted("w", first.Hash))
	require.Len(t, c.Versions("w"), 3)

	// whoever else deletes the current one leaves the newest
	tombstone(t, c, "w", 1)
	current, _ = c.Current("w")
	require.Equal(t, 3, current.Version)
	tombstone(t, c, "w", 2)
	tombstone(t, c, "w", 3)
	v, ok := c.Current("w")
	require.False(t, ok)
	require.True(t, v.Deleted)
	require.Empty(t, c.List())
	require.Empty(t, c.Versions("w"))
	versions, bytes := c.Held()
	require.Zero(t, versions+bytes)
	require.NoError(t, c.Apply(&events.Record{Key: []byte("w/none")}), "nothing is deleted twice")
}

func TestADeletionMakesRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	for i := range scheduler.MaxVersions {
		require.NoError(t, c.Apply(definitionRecord(t, "workflow: w"+strconv.Itoa(i%100)+"\nsteps: {a: {agent: a"+strconv.Itoa(i)+"}}", 1)))
	}
	more := definitionRecord(t, "workflow: more\nsteps: {a: {agent: a}}", 1)
	require.ErrorContains(t, c.Apply(more), "no room")
	tombstone(t, c, "w1", 7)
	require.NoError(t, c.Apply(more))
}

// disk keeps bodies as a file does, and counts.
type disk struct {
	kept  []byte
	reads int
	fails bool
}

func (d *disk) Keep(body []byte) (int64, error) {
	d.kept = append(d.kept, body...)
	return int64(len(d.kept) - len(body)), nil
}

func (d *disk) Read(at int64, body []byte) error {
	if d.fails {
		return errors.New("no such sector")
	}
	d.reads++
	copy(body, d.kept[at:])
	return nil
}

func TestBodiesAreNotInMemory(t *testing.T) {
	t.Parallel()
	d := &disk{}
	c := scheduler.NewCatalog(d)
	var records []*events.Record
	for i := range 100 {
		records = append(records, definitionRecord(t, "workflow: w\noutput: "+strings.Repeat("x", 5000)+strconv.Itoa(i)+"\nsteps: {a: {agent: a}}", 1))
		require.NoError(t, c.Apply(records[i]))
		require.NoError(t, c.Apply(records[i]))
	}
	versions, bytes := c.Held()
	require.Equal(t, [...]int{100, len(d.kept)}, [...]int{versions, bytes}, "each body once")
	held := 0
	for i, v := range c.Versions("w") {
		held += len(v.Body)
		body, err := c.Read(v)
		require.NoError(t, err)
		require.Equal(t, string(records[i].Value), string(body))
	}
	require.Zero(t, held)
	v, _ := c.Version("w", 7)
	d.kept[len(records[0].Value)*6+10] ^= 1
	_, err := c.Read(v)
	require.ErrorContains(t, err, "has changed on disk")
	d.fails = true
	_, err = c.Read(v)
	require.ErrorContains(t, err, `read version 7 of workflow "w": no such sector`)
}
