package events_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The identifier that remote services see is fixed by these values. It is the same in all attempts, and differs if anything
// else differs.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	key := func(task, ticket string, run int, step string, op events.Operation) string {
		return (&events.Work{Task: task, Ticket: ticket, Run: run, Step: step}).Key(exampleNamespace, op)
	}
	for want, got := range map[string]string{
		"c931e2e9-9c06-5cd3-b040-7a75214ccdcd": key("delivery-42", "2-9f0c/3", 1, "package", events.Do),
		"1ebe6b21-4585-578b-a9de-fa4036972bff": key("delivery-42", "2-9f0c/3", 1, "package", events.Undo),
		"f4b519e5-eff6-56f3-b423-5dffff640d4b": key("delivery-42", "2-9f0c/3", 2, "package", events.Do),
		"89ebbd5f-cb8b-5c33-a75c-d6478ec94303": key("delivery-42", "2-9f0c/3", 1, "package[17]", events.Do),
		"ad16f7c9-b43b-53d7-903c-f35ee64eac20": key("Zürich/<3> \"✓\"", "2-9f0c/3", 1, "package", events.Do),
	} {
		require.Equal(t, want, got)
	}
	// No two of them have the same text: the parts are encoded as JSON, not joined.
	require.NotEqual(t, key("a", "2-9f0c/3", 1, "b", events.Do), key("a,1", "2-9f0c/3", 1, "b", events.Do))
	// A later task with the same ID has another ticket.
	require.NotEqual(t, key("a", "2-9f0c/3", 1, "b", events.Do), key("a", "3-11ab/0", 1, "b", events.Do))
}

func TestWorkRoundTrip(t *testing.T) {
	t.Parallel()
	w := events.Work{
		Task: "t", Run: 1, Workflow: "w", Version: 2, Step: "a", Agent: "a", Operation: events.Undo, Attempt: 3, IdempotencyKey: "k",
		CompleteBy: testStart, Input: raw(`{"x":1.0}`), Output: raw(`"<>"`), Home: 3, Ticket: "1-a/7",
	}
	r, err := events.EncodeWork(w, events.Subject{ID: "3/1-a/7", Source: testSource, Time: testStart})
	require.NoError(t, err)
	got, e, err := events.DecodeWork(&r)
	require.NoError(t, err)
	require.Equal(t, w, got)
	require.Equal(t, "3/1-a/7", e.ID)

	// The time from the decision to the end is what complete_by and ce_time say, unless it is written.
	for within, written := range map[events.Duration]bool{5e9: false, 6e9: true} {
		w.CompleteBy, w.CompleteWithin = testStart+5000, within
		r, err := events.EncodeWork(w, events.Subject{ID: "3/1-a/7", Source: testSource, Time: testStart})
		require.NoError(t, err)
		require.Equal(t, written, bytes.Contains(r.Value, []byte("complete_within")))
		got, _, err := events.DecodeWork(&r)
		require.NoError(t, err)
		require.Equal(t, w, got)
	}

	for name, bad := range map[string]events.Work{
		"task": {Step: "a", Attempt: 1, Operation: events.Do}, "step": {Task: "t", Attempt: 1, Operation: events.Do},
		"attempt": {Task: "t", Step: "a", Operation: events.Do}, "operation": {Task: "t", Step: "a", Attempt: 1},
	} {
		r, err := events.EncodeWork(bad, events.Subject{})
		require.NoError(t, err)
		_, _, err = events.DecodeWork(&r)
		require.Error(t, err, name)
	}
	for name, bad := range map[string]events.Record{
		"another type": {Value: r.Value, Headers: headers("ce_type", events.TypeReport)},
		"bad JSON":     {Value: []byte("{")},
		"no event":     {Value: r.Value, Headers: headers("ce_specversion", "2")},
	} {
		_, _, err := events.DecodeWork(&bad)
		require.Error(t, err, name)
	}
}

func TestReportsAndRequests(t *testing.T) {
	t.Parallel()
	s := events.Subject{ID: "i", Source: "/s", Time: testStart}
	r, err := events.EncodeReport(events.Report{Task: "t", Ticket: "k", RetryAfter: events.Duration(2e9)}, s)
	require.NoError(t, err)
	require.Equal(t, events.TypeReport, r.Header(events.HeaderType))
	require.Equal(t, "t", string(r.Key))
	p := events.Report{Task: "t", Ticket: "k", Step: "a", Operation: events.Do, Attempt: 1, Instance: "i", StartedAt: testStart - 10, FinishedAt: testStart}
	r, err = events.EncodeReport(p, s)
	require.NoError(t, err)
	require.NotContains(t, string(r.Value), "task", "the key says it")
	require.NotContains(t, string(r.Value), "finished_at", "the ce_time says it")
	ids := map[string]bool{p.ID(): true}
	for _, change := range []func(*events.Report){
		func(p *events.Report) { p.Task = "u" }, func(p *events.Report) { p.Ticket = "l" }, func(p *events.Report) { p.Run = 2 },
		func(p *events.Report) { p.Step = "b" }, func(p *events.Report) { p.Operation = events.Undo }, func(p *events.Report) { p.Attempt = 2 },
		func(p *events.Report) { p.Instance = "j" },
	} {
		q := p
		change(&q)
		ids[q.ID()] = true
	}
	require.Len(t, ids, 8, "each is another report")
	require.Len(t, p.ID(), 16)
	p.Result, p.FinishedAt = events.ResultFailed, testStart+1
	require.True(t, ids[p.ID()], "the same attempt of the same instance")
	for _, verb := range events.Verbs() {
		r, err := events.EncodeRequest(events.Request{ID: "q", Kind: verb, Task: "t"}, s)
		require.NoError(t, err)
		require.Equal(t, "sagalog.request."+string(verb), r.Header(events.HeaderType))
		require.Equal(t, verb, events.VerbOf(r.Header(events.HeaderType)))
	}
	require.Empty(t, events.VerbOf("sagalog.request.dance"))
	require.Empty(t, events.VerbOf("sagalog.request."))
	require.Empty(t, events.VerbOf(events.TypeReport))
	_, err = events.EncodeReport(events.Report{Output: raw("{")}, s)
	require.Error(t, err)
}

func TestPresence(t *testing.T) {
	t.Parallel()
	p := events.Presence{
		Kind: events.PresenceAgent, Instance: "a-0", Agents: []string{"a"}, Operations: map[string][]events.Operation{"a": {events.Do}},
		Capacity: map[string]int{"a": 8}, InFlight: map[string]int{"a": 0}, Health: map[string]string{"a": events.Healthy},
		Partitions: map[string][]int32{"a": {1, 3}}, StartedAt: testStart, SeenAt: testStart,
	}
	r, err := events.EncodePresence(p, events.Subject{ID: "i", Source: "/s", Time: testStart})
	require.NoError(t, err)
	require.Equal(t, "agent/a-0", string(r.Key))
	got, err := events.DecodePresence(&r)
	require.NoError(t, err)
	require.Equal(t, p, got)
	r.Value = nil // a tombstone
	_, err = events.DecodePresence(&r)
	require.Error(t, err)
}

// exampleNamespace is the namespace's UUID in FORMAT.md.
var exampleNamespace = uuid.MustParse("6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11")
