package main

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/stretchr/testify/require"
)

// A live node with the role api alone decides nothing, so it is not enough that some node is alive.
func TestDoctorNamesTheSilentOwner(t *testing.T) {
	t.Parallel()
	at := events.At(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC))
	owner := events.Presence{Instance: "n1", SeenAt: at, Partitions: map[string][]int32{ownedBy: {0, 2, 3}}}
	api := events.Presence{Instance: "n2", SeenAt: at.Add(time.Minute)}
	require.Empty(t, unownedFindings(3, []events.Presence{{Partitions: map[string][]int32{ownedBy: {0, 1, 2, 7}}}}, nil))

	found := unownedFindings(4, []events.Presence{api}, []events.Presence{owner, api})
	require.Len(t, found, 1)
	require.Equal(t, doctor.StatusWarn, found[0].Status)
	require.Equal(t, "4 of 4 partitions are owned by no live node: nothing is decided in them, and their inputs wait; node n1 owned some of them, and was last heard from at "+at.String(), found[0].What)
	require.Contains(t, found[0].Remedy, "restart that node")

	taken := events.Presence{Instance: "n3", Partitions: map[string][]int32{ownedBy: {0, 2, 3}}, Stopped: []events.StoppedPartition{{Partition: 1}}}
	require.Empty(t, unownedFindings(4, []events.Presence{taken}, []events.Presence{owner, taken}), "taken over, and one has stopped, which another finding says")
	found = unownedFindings(5, []events.Presence{taken}, []events.Presence{owner, taken})
	require.Equal(t, "1 of 5 partitions are owned by no live node: nothing is decided in them, and their inputs wait", found[0].What, "the silent node did not own it")
}
