package node_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// remembers makes a node start with a flag.
func remembers(d time.Duration) func(*node.Config) {
	return func(c *node.Config) {
		c.Settings = events.DefaultSettings()
		c.Settings.RememberFor, c.SettingsSet = events.Duration(d), []string{"remember_for"}
	}
}

// Two nodes of a namespace with different flags would decide differently. The first one's value is that of the namespace; the other
// node is refused, also if it asks for the default. A node without the flag takes the namespace's.
func TestANodeWithAnotherSettingIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir(), remembers(48*time.Hour))
		w.shared("node-1")
		for _, other := range []time.Duration{24 * time.Hour, 7 * 24 * time.Hour} {
			_, err := w.open(t.TempDir(), remembers(other))
			require.ErrorContains(t, err, "--remember-for "+events.Duration(other).String()+": namespace sagalog has remember_for = 48h since ")
			require.ErrorContains(t, err, "sagalog namespace set remember_for="+events.Duration(other).String())
		}
		require.NoError(t, n.stop())
		w.node(t.TempDir(), remembers(48*time.Hour))
		records := w.read(w.topics.Definitions(), 0)
		require.Len(t, records, 2, "the namespace, and the settings once")
		require.Equal(t, "settings", string(records[1].Key))
	})
}

// A change while nodes run is adopted by every partition, and acts: finished tasks are forgotten by the new value.
func TestAChangedSettingIsAdoptedByEachPartition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		tasks := ids("t", 8)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		<-time.After(5 * time.Minute)
		swept := func() (list []string, offsets []int64) {
			for p := range w.parts {
				for _, r := range w.read(w.topics.Events(), p) {
					f, err := events.DecodeFact(&r)
					require.NoError(t, err)
					switch b := f.Body.(type) {
					case *events.TasksSwept:
						list = append(list, b.Tasks...)
					case *events.SettingsAdopted:
						offsets = append(offsets, b.Offset)
					}
				}
			}
			return list, offsets
		}
		list, offsets := swept()
		require.Empty(t, list)
		require.Equal(t, []int64{0, 0}, offsets)

		change := events.SettingsChange{Settings: map[string]json.RawMessage{"remember_for": json.RawMessage(`"1m"`)}, By: "anna"}
		r, err := scheduler.EncodeSettings(change, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		later := r
		later.Headers = []events.Header{{Key: events.HeaderSpecVersion, Value: []byte("1.0")}, {Key: events.HeaderType, Value: []byte("sagalog.later")}}
		at := w.produce(w.topics.Definitions(), 0, later, r)
		<-time.After(time.Minute)
		list, offsets = swept()
		require.ElementsMatch(t, tasks, list)
		require.Equal(t, []int64{0, at[1], 0, at[1]}, offsets)
		require.Len(t, w.logs.find("a record of definitions cannot be read; it is skipped"), 1, "a kind of a later version")
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}
