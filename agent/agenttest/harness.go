package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

// DefaultCompleteBy is the time that an attempt gets in Do and Undo.
const DefaultCompleteBy = 5 * time.Second

// Harness is a runner with its source and sink. Its methods fail the test if they are misused.
type Harness struct {
	Sink    *Sink
	Sources map[string]*Source

	t    testing.TB
	stop func() error
	sent int

	// mu guards decoded, the reports among the first seen records of the sink.
	mu      sync.Mutex
	decoded []events.Report
	seen    int
}

// Option changes the runner's configuration.
type Option func(*agent.Config)

// Start runs all agents of the registry until the test ends, or until Stop.
func Start(t testing.TB, r *agent.Registry, options ...Option) *Harness {
	t.Helper()
	h := &Harness{Sink: NewSink(), Sources: map[string]*Source{}, t: t}
	c := agent.Config{Instance: "test-1", Sink: h.Sink, Sources: map[string]transport.Source{}}
	for _, name := range r.Agents() {
		s := NewSource(0, 1)
		h.Sources[name], c.Sources[name] = s, s
	}
	for _, o := range options {
		o(&c)
	}
	runner, err := agent.NewRunner(r, c)
	if err != nil {
		t.Fatalf("agenttest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	h.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Errorf("agenttest: the runner ended with: %v", err)
		}
	})
	return h
}

// Stop stops the runner cleanly and returns the error of Run. The harness also stops when the test ends.
func (h *Harness) Stop() error { return h.stop() }

// Work returns a complete request for a new task, to do (events.Do) or undo (events.Undo) what the name says: "bank" is the agent, and
// "bank/capture" its operation of that name. Change it, Send it and Await its outcome. For a step with a heartbeat set Heartbeat, and CompleteBy to
// the latest end of the attempt.
func (h *Harness) Work(name string, op events.Operation, input any) events.Work {
	h.t.Helper()
	h.sent++
	task := fmt.Sprintf("task-%d", h.sent)
	name, function, _ := strings.Cut(name, "/") // the name of an agent has no slash
	w := events.Work{
		Task: task, Run: 1, Workflow: "test", Version: 1, Step: "step", Agent: name, Function: function, Operation: op, Attempt: 1,
		CompleteBy: events.At(time.Now().Add(DefaultCompleteBy)), Input: h.encode(input), Home: int32(h.sent % 4),
		Ticket: fmt.Sprintf("ticket-%d", h.sent),
	}
	if w.IdempotencyKey = w.Key(uuid.Nil, op); op == events.Undo {
		w.Undoes = w.Key(uuid.Nil, events.Do)
	}
	return w
}

// Do makes one attempt and returns its report. The name is that of an agent, or "agent/operation". It fails the test if no report comes by the
// complete-by time.
func (h *Harness) Do(name string, input any) events.Report {
	h.t.Helper()
	return h.must(h.Work(name, events.Do, input))
}

// Undo makes one attempt to undo; the name is as in Do. A nil output means that the outcome of the do is unknown.
func (h *Harness) Undo(name string, input, output any) events.Report {
	h.t.Helper()
	w := h.Work(name, events.Undo, input)
	if output != nil {
		w.Output = h.encode(output)
	}
	return h.must(w)
}

func (h *Harness) must(w events.Work) events.Report {
	h.t.Helper()
	h.Send(w)
	r, ok := h.Await(w)
	if !ok {
		h.t.Fatalf("agenttest: agent %s reported nothing by the complete-by time", w.Agent)
	}
	return r
}

// Send delivers a request to its agent. One with a Heartbeat and no CapBy may take until CompleteBy, if it shows progress: it is sent as the engine
// would, with that time as its CapBy.
func (h *Harness) Send(w events.Work) {
	h.t.Helper()
	h.Sources[w.Agent].Add(h.Record(w))
}

// Record returns the record of a request, in partition 0.
func (h *Harness) Record(w events.Work) events.Record {
	h.t.Helper()
	if h.Sources[w.Agent] == nil {
		h.t.Fatalf("agenttest: agent %q is not registered; the registered ones are %s", w.Agent, strings.Join(slices.Sorted(maps.Keys(h.Sources)), ", "))
	}
	if w.Heartbeat > 0 && w.CapBy == 0 {
		w.CapBy, w.CompleteBy = w.CompleteBy, min(w.CompleteBy, events.At(time.Now()).Add(w.Heartbeat.Std()))
	}
	r, err := events.EncodeWork(w, events.Subject{ID: w.IdempotencyKey, Source: "agenttest", Time: events.At(time.Now())})
	if err != nil {
		h.t.Fatalf("agenttest: %v", err)
	}
	return r
}

// Await waits for the outcome of a request, until its complete-by time, or with a heartbeat until its CapBy. Progress is no outcome: Reports has it.
func (h *Harness) Await(w events.Work) (events.Report, bool) {
	h.t.Helper()
	t := time.NewTimer(time.Until(max(w.CompleteBy, w.CapBy).Time()))
	defer t.Stop()
	for {
		records, more := h.Sink.Records()
		for _, r := range slices.Backward(h.reports(records)) {
			if r.Result != events.ResultProgress && r.Task == w.Task && r.Ticket == w.Ticket && r.Run == w.Run && r.Step == w.Step && r.Operation == w.Operation && r.Attempt == w.Attempt {
				return r, true
			}
		}
		select {
		case <-more:
		case <-t.C:
			return events.Report{}, false
		}
	}
}

// Reports returns all reports so far, in order.
func (h *Harness) Reports() []events.Report {
	h.t.Helper()
	records, _ := h.Sink.Records()
	return h.reports(records)
}

// LastReport returns the record of the last report. It fails the test if nothing was reported.
func (h *Harness) LastReport() events.Record {
	h.t.Helper()
	records, _ := h.Sink.Records()
	for _, r := range slices.Backward(records) {
		if strings.HasSuffix(r.Topic, ".reports") {
			return r
		}
	}
	h.t.Fatalf("agenttest: nothing was reported")
	return events.Record{}
}

// Heartbeats returns all heartbeats so far, in order, without the tombstone of a stop.
func (h *Harness) Heartbeats() []events.Presence {
	h.t.Helper()
	var out []events.Presence
	records, _ := h.Sink.Records()
	for i := range records {
		if !strings.HasSuffix(records[i].Topic, ".presence") || len(records[i].Value) == 0 {
			continue
		}
		p, err := events.DecodePresence(&records[i])
		if err != nil {
			h.t.Fatalf("agenttest: %v", err)
		}
		out = append(out, p)
	}
	return out
}

func (h *Harness) reports(records []events.Record) []events.Report {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := h.seen; i < len(records); i++ {
		h.seen++
		if !strings.HasSuffix(records[i].Topic, ".reports") {
			continue
		}
		var r events.Report
		if err := json.Unmarshal(records[i].Value, &r); err != nil {
			h.t.Fatalf("agenttest: read report: %v", err)
		}
		r.Task = string(records[i].Key)
		if r.FinishedAt == 0 && r.Result != events.ResultProgress {
			r.FinishedAt, _ = events.ParseInstant(records[i].Header(events.HeaderTime))
		}
		h.decoded = append(h.decoded, r)
	}
	return slices.Clone(h.decoded)
}

func (h *Harness) encode(v any) json.RawMessage {
	h.t.Helper()
	b, err := events.Marshal(v)
	if err != nil {
		h.t.Fatalf("agenttest: %v", err)
	}
	return b
}
