package verify_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// stores reads the store of the stopped node, its rows too.
func (r *rig) stores() (list []verify.Stored) {
	ns, err := node.ReadNamespace(r.t.Context(), r.cluster, r.topics.Namespace)
	require.NoError(r.t, err)
	s, err := projector.Open(r.dir+"/state", projector.Options{Namespace: ns.ID})
	if err != nil {
		s, err = projector.Open(r.dir, projector.Options{Namespace: ns.ID})
	}
	require.NoError(r.t, err)
	defer s.Close()
	for _, p := range s.Partitions() {
		info, err := s.PartitionInfo(p)
		require.NoError(r.t, err)
		rows := rowsOf(r.t, s, p, nil)
		list = append(list, verify.Stored{Where: "the node", Partition: p, Offset: info.Next, Hash: info.StateHash, Rows: &rows})
		r.altered = append(r.altered, rowsOf(r.t, s, p, func(kind events.Kind, _ string, b []byte) []byte {
			if kind == events.KindTask {
				return bytes.Replace(b, []byte(`"workflow":"order"`), []byte(`"workflow":"ordex"`), 1)
			}
			return b
		}))
	}
	require.Len(r.t, list, rigPartitions)
	return list
}

// rowsOf sums the rows; alter may change one.
func rowsOf(t testing.TB, s *projector.Store, p int32, alter func(kind events.Kind, id string, b []byte) []byte) (sum events.Hash) {
	require.NoError(t, s.Rows(p, func(kind events.Kind, id string, b []byte) error {
		if alter != nil {
			b = alter(kind, id, b)
		}
		sum = sum.Add(verify.HashEntity(kind, id, b))
		return nil
	}))
	return sum
}

var (
	once   sync.Once
	played *recorded
)

// recording is one run of the engine, shared by all tests of this package.
func recording(t *testing.T) *recorded {
	t.Helper()
	once.Do(func() { played = play(t, 0) })
	require.NotNil(t, played, "the recording failed")
	return played
}

// TestTheLogOfTheEngineIsProved checks the verdict on an undamaged log.
func TestTheLogOfTheEngineIsProved(t *testing.T) {
	r := recording(t).verify(t)
	require.Empty(t, r.Findings)
	require.Equal(t, verify.Proved, r.Verdict)
	n := r.Counts
	t.Logf("%+v", n)
	require.Positive(t, n.StateHashes)
	require.Equal(t, rigPartitions, n.Stores)
	require.Positive(t, n.Undos)
	require.Equal(t, 4, n.Parked)
	require.Positive(t, n.Ended["undone"])
	require.Positive(t, n.Inputs["forwarded"])
	require.Positive(t, n.Inputs["duplicates"])
	require.Positive(t, n.Inputs["rejected"])
	require.Positive(t, n.Void["copy"])
	require.Positive(t, n.Void["late_claim"])
	require.Positive(t, n.Ledgers.Calls)
}
