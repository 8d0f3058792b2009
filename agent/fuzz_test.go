package agent_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// FuzzWork sends a running agent an arbitrary record as a work request, and then a valid one. The agent never panics. A record
// that it cannot decode does not delay the next request and is not reported.
func FuzzWork(f *testing.F) {
	good, err := events.Marshal(events.Work{Task: "t", Run: 1, Workflow: "w", Version: 1, Step: "s", Agent: "package", Operation: events.Do,
		Attempt: 1, IdempotencyKey: "k", CompleteBy: 4_000_000_000_000, Input: json.RawMessage(`{"id":"p"}`), Home: 2, Ticket: "x"})
	require.NoError(f, err)
	undo := []byte(`{"task":"t","run":1,"step":"s","agent":"other","operation":"undo","attempt":3,"complete_by":"2096-10-02T07:06:40Z","input":{"id":1},"home":-1}`)
	for _, v := range [][]byte{good, undo, nil, []byte("null"), []byte(`{"task":"t"}`), []byte(`{"task":"t","step":"s","operation":"do","attempt":1}`), []byte(`{"complete_by":"9999-12-31T23:59:59Z"}`)} {
		f.Add("application/json", events.TypeWork, "00-1-2-01", []byte("t"), v)
	}
	f.Add("application/cloudevents+json", "", "", []byte(nil), []byte(`{"specversion":"1.0","type":"sagalog.work","data":`+string(good)+`}`))
	f.Fuzz(func(t *testing.T, content, kind, trace string, key, value []byte) {
		synctest.Test(t, func(t *testing.T) {
			h := agenttest.Start(t, handle(echo))
			r := events.Record{Key: key, Value: value, Headers: []events.Header{{Key: events.HeaderContentType, Value: []byte(content)},
				{Key: events.HeaderType, Value: []byte(kind)}, {Key: events.HeaderTraceparent, Value: []byte(trace)}}}
			h.Sources["package"].Add(r)
			_, _, unreadable := events.DecodeWork(&r)
			p := h.Do("package", parcel{ID: "behind"})
			require.Equal(t, events.ResultCompleted, p.Result)
			require.JSONEq(t, `{"id":"behind"}`, string(p.Output))
			if unreadable != nil {
				require.Len(t, h.Reports(), 1)
			}
			require.NoError(t, h.Stop())
		})
	})
}
