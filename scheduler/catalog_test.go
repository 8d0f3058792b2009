package scheduler_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

func definitionRecord(t testing.TB, text string, at events.Instant) *events.Record {
	t.Helper()
	src, faults := scheduler.Parse("f", []byte(text), nil)
	require.Empty(t, faults)
	r, err := scheduler.EncodeDefinition(src, events.Subject{ID: "1", Source: "/test", Time: at}, "")
	require.NoError(t, err)
	require.Equal(t, src.Workflow+"/"+src.Hash, string(r.Key))
	require.Equal(t, events.TypeDefinition, r.Header(events.HeaderType))
	return &r
}

func TestAVersionIsTheOrdinalOfItsFirstAppearance(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	first := definitionRecord(t, head+"  a: {agent: a}", 1000)
	second := definitionRecord(t, head+"  a: {agent: b}", 2000)
	other := definitionRecord(t, "workflow: other\nsteps: {a: {agent: a}}", 3000)
	for _, r := range []*events.Record{first, second, other} {
		require.NoError(t, c.Apply(r))
	}
	v, ok := c.Current("w")
	require.True(t, ok)
	require.Equal(t, 2, v.Version)
	require.Equal(t, string(second.Value), string(v.Body))
	require.Equal(t, events.Instant(2000), v.AppliedAt)

	// older content that is applied again becomes the current version again, with its old number
	again := *first
	again.Headers = append(definitionRecord(t, head+"  a: {agent: a}", 4000).Headers, events.Header{Key: events.HeaderBy, Value: []byte("ada")})
	require.NoError(t, c.Apply(&again))
	v, _ = c.Current("w")
	require.Equal(t, 1, v.Version)
	require.Equal(t, events.Instant(4000), v.AppliedAt)
	require.Equal(t, "ada", v.AppliedBy, "who applied it last; nobody knows who did before")
	require.Len(t, c.Versions("w"), 2)

	v, ok = c.Version("w", 2)
	require.True(t, ok)
	require.Equal(t, string(second.Value), string(v.Body))
	byHash, ok := c.ByHash("w", v.Hash)
	require.True(t, ok)
	require.Equal(t, v, byHash)
	list := c.List()
	require.Len(t, list, 2)
	require.Equal(t, "other", list[0].Workflow)

	for _, ok := range []bool{
		has(c.Current("x")), has(c.Version("w", 0)), has(c.Version("w", 3)), has(c.Version("x", 1)),
		has(c.ByHash("w", "x")), has(c.ByHash("x", v.Hash)),
	} {
		require.False(t, ok)
	}
}

func has(_ scheduler.Version, ok bool) bool { return ok }

func TestTheFirstNamespaceCounts(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	_, ok := c.Namespace()
	require.False(t, ok)
	for _, id := range []string{"one", "two"} {
		r, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: id, Partitions: 8, Format: 1}, events.Subject{ID: id})
		require.NoError(t, err)
		require.Equal(t, "sagalog.NamespaceCreated", r.Header(events.HeaderType))
		require.NoError(t, c.Apply(&r))
	}
	n, ok := c.Namespace()
	require.True(t, ok)
	require.Equal(t, scheduler.Namespace{ID: "one", Partitions: 8, Format: 1}, n)
}

func TestARecordThatCannotBeADefinitionIsRefused(t *testing.T) {
	t.Parallel()
	sound := definitionRecord(t, head+"  a: {agent: a}", 1)
	for name, change := range map[string]func(*events.Record){
		"key":  func(r *events.Record) { r.Key = []byte("w") },
		"hash": func(r *events.Record) { r.Value = append([]byte(" "), r.Value...) },
		"type": func(r *events.Record) { r.Headers = r.Headers[:1] },
		"other": func(r *events.Record) {
			r.Headers = []events.Header{{Key: events.HeaderSpecVersion, Value: []byte("2")}}
		},
	} {
		r := *sound
		change(&r)
		require.ErrorContains(t, scheduler.NewCatalog(nil).Apply(&r), "offset 0", name)
	}
	require.NoError(t, scheduler.NewCatalog(nil).Apply(&events.Record{Control: true}))
	_, err := scheduler.EncodeDefinition(&scheduler.Source{Workflow: "w", Body: []byte("{}"), Hash: "x"}, events.Subject{}, "")
	require.Error(t, err)
}

func TestACatalogIsReadWhileItIsApplied(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	var records []*events.Record
	for i := range 50 {
		records = append(records, definitionRecord(t, head+"  a: {agent: a"+strconv.Itoa(i)+"}", events.Instant(i+1)))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := 0
			for last < len(records) {
				v, ok := c.Current("w")
				if !ok {
					continue
				}
				if v.Version < last {
					t.Errorf("version %d after %d", v.Version, last)
					return
				}
				last = v.Version
				c.List()
			}
		})
	}
	for _, r := range records {
		require.NoError(t, c.Apply(r))
	}
	wg.Wait()
}
