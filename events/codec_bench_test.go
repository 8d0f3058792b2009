package events_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The records that a task of five steps sends and receives.
var (
	benchWork = events.Work{
		Task: "order-0000000042", Run: 1, Workflow: "bench", Version: 1, Step: "pay", Agent: "pay", Operation: events.Do, Attempt: 1,
		IdempotencyKey: "a50a09f7-7d14-50b5-a54b-080aecd02df4", CompleteBy: testStart, Home: 3, Ticket: "4-0b3f6f0c9d3e2a6c/1017",
		Input: raw(`{"amount":12.5,"hold":"order-0000000042/reserve","order":"order-0000000042"}`),
	}
	benchReport = events.Report{
		Task: "order-0000000042", Run: 1, Step: "pay", Operation: events.Do, Attempt: 1, Ticket: "4-0b3f6f0c9d3e2a6c/1017",
		Result: events.ResultCompleted, Output: raw(`{"id":"order-0000000042/pay"}`), Instance: "bench-0", StartedAt: testStart, FinishedAt: testStart + 10,
	}
	benchSubject    = events.Subject{ID: "3/4-0b3f6f0c9d3e2a6c/1017", Source: testSource, Time: testStart}
	benchSubmission = []byte(`{"workflow": "bench", "input": {"customer": "c-17", "amount": 12.5}, "labels": {"region": "north"}}`)
)

func BenchmarkEncodeWork(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.EncodeWork(benchWork, benchSubject); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeWork(b *testing.B) {
	r, err := events.EncodeWork(benchWork, benchSubject)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := events.DecodeWork(&r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeReport(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.EncodeReport(benchReport, benchSubject); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeReport measures the decoding of a report by its owner.
func BenchmarkDecodeReport(b *testing.B) {
	r, err := events.EncodeReport(benchReport, benchSubject)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		e, data, err := events.Open(&r)
		if err != nil {
			b.Fatal(err)
		}
		p, err := events.DecodeReport(data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := events.TaskID(r.Key, e.Subject, p.Task); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseSubmission(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.ParseSubmission(benchSubmission); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContentHash(b *testing.B) {
	s, err := events.ParseSubmission(benchSubmission)
	require.NoError(b, err)
	s.ID = "order-0000000042"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ContentHash(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHashInput(b *testing.B) {
	r, err := events.EncodeReport(benchReport, benchSubject)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		events.HashInput(&r)
	}
}

func BenchmarkIdempotencyKey(b *testing.B) {
	id := uuid.MustParse("6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11")
	b.ReportAllocs()
	for b.Loop() {
		benchWork.Key(id, events.Do)
	}
}

// benchLife holds the facts of a task of five steps.
func benchLife() []events.Body {
	bodies := []events.Body{&events.Submitted{
		Workflow: "bench", Version: 1, Hash: "6b8c309ee51ea7a59a511ee4eddb35e9230931b0887bc31cd23e33ffed349c52",
		Input:   raw(`{"customer":"c-17","amount":12.5}`),
		Content: "0c8c309ee51ea7a59a511ee4eddb35e9230931b0887bc31cd23e33ffed349c52",
	}}
	for _, step := range []string{"reserve", "pay", "pack", "ship", "notify"} {
		bodies = append(bodies,
			&events.StepStarted{Step: step, Agent: step, Attempt: 1, CompleteBy: testStart + 30000, Input: benchWork.Input, Undoable: true},
			&events.StepCompleted{Step: step, Attempt: 1, Output: benchReport.Output, Outcome: events.Outcome{Instance: "bench-0", StartedAt: testStart, FinishedAt: testStart}})
	}
	return append(bodies, &events.TaskProcessed{Output: benchReport.Output})
}

// lifeBencher folds the facts of several tasks alternately.
type lifeBencher struct {
	b     *testing.B
	state *events.State
	fact  events.Fact
	names []string
}

func newLifeBencher(b *testing.B, tasks int) *lifeBencher {
	w := &lifeBencher{b: b, state: events.NewState(testPartition, nil)}
	_, err := w.state.Apply(&events.Fact{Time: testStart, Body: &events.PartitionClaimed{ID: "0b3f6f0c9d3e2a6c"}}, 0)
	require.NoError(b, err)
	w.fact = events.Fact{Epoch: w.state.Partition.Epoch, Time: testStart}
	for i := range tasks {
		w.names = append(w.names, fmt.Sprintf("order-%010d", i))
	}
	return w
}

func (w *lifeBencher) apply(task string, cause events.Cause, body events.Body) {
	w.fact.Task, w.fact.Cause, w.fact.Body = task, cause, body
	if w.fact.Sequence > 0 {
		w.fact.Watermark = events.Position{Epoch: w.fact.Epoch, Sequence: w.fact.Sequence - 1}
	}
	if _, err := w.state.Apply(&w.fact, w.state.Next); err != nil {
		w.b.Fatal(err)
	}
	w.fact.Sequence++
}

// BenchmarkFold folds a whole task of five steps: 12 facts.
func BenchmarkFold(b *testing.B) {
	const tasks = 1000
	life := benchLife()
	w := newLifeBencher(b, tasks)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%tasks == 0 { // IDs that have not been used before
			b.StopTimer()
			w = newLifeBencher(b, tasks)
			b.StartTimer()
		}
		for i, body := range life {
			cause := events.Cause("r/3/120")
			if i%2 == 1 {
				cause = "f/4-0b3f6f0c9d3e2a6c/1017"
			}
			w.apply(w.names[n%tasks], cause, body)
		}
	}
}

// BenchmarkFlushTasks flushes 200 tasks in the middle of their steps.
func BenchmarkFlushTasks(b *testing.B) {
	const tasks = 200
	w := newLifeBencher(b, tasks)
	for _, body := range benchLife()[:6] {
		for _, task := range w.names {
			w.apply(task, "r/3/120", body)
		}
	}
	agenda := func(t *events.Task) events.Planned {
		return events.Planned{Due: testStart, Waits: events.CountWaits(t, testStart)}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, task := range w.names {
			w.state.Touch(task)
		}
		if d, err := w.state.Flush(agenda); err != nil || len(d.Tasks) != tasks {
			b.Fatal(err, len(d.Tasks))
		}
	}
}

func BenchmarkDecodeTask(b *testing.B) {
	w := newLifeBencher(b, 1)
	for _, body := range benchLife()[:6] {
		w.apply(w.names[0], "r/3/120", body)
	}
	d, err := w.state.Flush(nil)
	require.NoError(b, err)
	b.SetBytes(int64(len(d.Tasks[0].Encoding)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.DecodeTask(d.Tasks[0].Encoding, d.Tasks[0].Rows); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKeys(b *testing.B) {
	k := events.Keys{State: events.TaskStateProcessing, Workflow: "bench", SubmittedAt: testStart, Due: testStart + 30000,
		Ready: []events.ReadyKey{{Agent: "pay", Path: "pay", Operation: events.Do, Since: testStart}}}
	var buf []byte
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = events.AppendKeys(buf[:0], &k)
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := events.DecodeKeys(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
