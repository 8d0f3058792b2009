package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// FuzzCatalog folds arbitrary records after valid ones. The catalog refuses a record that it cannot read and does not
// change. A record that it accepts is found by its version, with the same body.
func FuzzCatalog(f *testing.F) {
	src := parseExample(f)
	def, err := scheduler.EncodeDefinition(src, events.Subject{ID: "d", Source: "/x", Time: 1_800_000_000_000}, "")
	require.NoError(f, err)
	ns, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: "018f", Partitions: 8}, events.Subject{ID: "n", Source: "/x"})
	require.NoError(f, err)
	for _, r := range []events.Record{def, ns} {
		f.Add("application/json", r.Header(events.HeaderType), r.Header(events.HeaderTime), r.Key, r.Value)
	}
	f.Add("application/cloudevents+json", "", "", []byte("w/x"), []byte(`{"specversion":"1.0","type":"sagalog.definition","time":"x","data":{"workflow":"w"}}`))
	f.Add("", ns.Header(events.HeaderType), "", []byte("namespace"), []byte(`{"id":7}`))
	f.Fuzz(func(t *testing.T, content, kind, at string, key, value []byte) {
		c := scheduler.NewCatalog(nil)
		require.NoError(t, c.Apply(&def))
		before := c.List()
		r := events.Record{Offset: 1, Key: key, Value: value, Headers: []events.Header{{Key: events.HeaderContentType, Value: []byte(content)},
			{Key: events.HeaderType, Value: []byte(kind)}, {Key: events.HeaderTime, Value: []byte(at)}}}
		if err := c.Apply(&r); err != nil {
			require.Equal(t, before, c.List())
			_, known := c.Namespace()
			require.False(t, known)
			return
		}
		for _, v := range c.List() {
			same, ok := c.ByHash(v.Workflow, v.Hash)
			require.True(t, ok)
			require.Equal(t, v, same)
			same, ok = c.Version(v.Workflow, v.Version)
			require.True(t, ok)
			require.Equal(t, v, same)
			if d, err := scheduler.Complete(v.Body); err == nil {
				body, err := events.Marshal(d)
				require.NoError(t, err)
				require.NoError(t, scheduler.New().Prepare(v.Hash, body))
			}
		}
	})
}
