package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The vectors of Apache Kafka's own test of Utils.murmur2, and one of kafka-python.
func TestMurmur2(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		require.Equal(t, want, int32(events.Murmur2([]byte(in))), in)
	}
}

func TestHomesAreThoseOfKafkasPartitioner(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int32{"21": 4, "foobar": 6, "abc": 3, "delivery-42": 0, "Zürich/3 ✓": 7} {
		require.Equal(t, want, events.Home(id, 8), id)
	}
	require.Zero(t, events.Home("anything", 1))
}
