package events_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Of the definitions that a partition adopted, only those that its store does not hold yet are in memory, whoever opened the state.
func TestBodiesOfAdoptedDefinitionsLeaveMemory(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	body := func(i int) string {
		return fmt.Sprintf(`{"steps":{},"n":%d,"text":%q}`, i, strings.Repeat("x", 10_000))
	}
	loads := 0
	var fails error
	snapshot := func() events.Snapshot {
		snap := k.store.snapshot()
		snap.Load = func(kind events.Kind, id string) ([]byte, error) {
			loads++
			for _, row := range snap.Parts {
				if row.Kind == kind && row.ID == id {
					return row.Encoding, fails
				}
			}
			return nil, errors.New("no row")
		}
		return snap
	}
	open := func() *events.State {
		s, err := events.OpenState(testPartition, snapshot(), k.store.load)
		require.NoError(t, err)
		return s
	}
	held := func(s *events.State) (bytes int) {
		for i := range 100 {
			if d := s.Definition(fmt.Sprint("d", i)); d != nil {
				bytes += len(d.Body)
			}
		}
		return bytes
	}
	for i := range 100 {
		k.write("", &events.DefinitionAdopted{Workflow: "w", Hash: fmt.Sprint("d", i), Version: i + 1, Body: raw(body(i))})
	}
	d := k.flush(nil)
	require.Greater(t, held(k.state), 1_000_000)
	k.state.EvictDefinition("d1")
	require.NotNil(t, k.state.Definition("d1").Body, "without a store everything stays")

	s := open()
	require.Zero(t, held(s))
	require.Equal(t, d.Sum, s.Sum())
	require.Equal(t, &events.Definition{Workflow: "w", Hash: "d7", Version: 8}, s.Definition("d7"))
	got, err := s.DefinitionBody("d7")
	require.NoError(t, err)
	require.Equal(t, body(7), string(got))
	require.Equal(t, 1, loads)
	require.Zero(t, held(s))
	_, err = s.DefinitionBody("none")
	require.ErrorContains(t, err, "definition none is not known in this partition")
	fails = errors.New("the disk is gone")
	_, err = s.DefinitionBody("d7")
	require.ErrorIs(t, err, fails)
}

// A definition stays in memory until its row is durable.
func TestANewDefinitionStaysInMemoryUntilItIsStored(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	body := `{"steps":{}}`
	k.flush(nil)
	snap := k.store.snapshot()
	snap.Load = func(events.Kind, string) ([]byte, error) { return nil, errors.New("no row") }
	s, err := events.OpenState(testPartition, snap, k.store.load)
	require.NoError(t, err)
	more := &events.DefinitionAdopted{Workflow: "w", Hash: "more", Version: 101, Body: raw(body)}
	f := k.fact("", more)
	for _, state := range []*events.State{s, k.state} {
		_, err := state.Apply(f, state.Next)
		require.NoError(t, err)
	}
	s.EvictDefinition("more")
	got, err := s.DefinitionBody("more")
	require.NoError(t, err)
	require.Equal(t, body, string(got))
	delta, err := s.Flush(nil)
	require.NoError(t, err)
	s.EvictDefinition("more")
	require.Nil(t, s.Definition("more").Body)
	require.Equal(t, k.flush(nil).Sum, delta.Sum)
	sum, err := s.Hash()
	require.NoError(t, err)
	require.Equal(t, delta.Sum, sum)
	_, err = s.DefinitionBody("more")
	require.ErrorContains(t, err, "no row")
}
