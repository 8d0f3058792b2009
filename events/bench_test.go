package events_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func BenchmarkEncodeFact(b *testing.B) {
	for _, f := range benchFacts() {
		b.Run(string(f.Body.Name()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.EncodeFact(f, testPartition, testSource); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeFact(b *testing.B) {
	for _, f := range benchFacts() {
		r, err := events.EncodeFact(f, testPartition, testSource)
		require.NoError(b, err)
		b.Run(string(f.Body.Name()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.DecodeFact(&r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply folds tasks of five steps; an iteration is one fact.
func BenchmarkApply(b *testing.B) {
	b.ReportAllocs()
	w := newBencher(b)
	for b.Loop() {
		w.one()
	}
}

// BenchmarkFlush folds a batch of facts, each about a different task, and flushes it; an iteration is one fact.
func BenchmarkFlush(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			b.ReportAllocs()
			w := newBencher(b)
			n := 0
			for b.Loop() {
				w.one()
				if n++; n%batch != 0 {
					continue
				}
				d, err := w.state.Flush(nil)
				if err != nil {
					b.Fatal(err)
				}
				for _, row := range d.Tasks {
					if row.Keys.State.Ended() {
						w.state.Evict(row.ID)
					}
				}
			}
		})
	}
}

// BenchmarkHeld accepts tasks while many requests are held for others.
func BenchmarkHeld(b *testing.B) {
	b.ReportAllocs()
	w := newBencher(b)
	for i := range 10_000 {
		w.apply(fmt.Sprint("held-", i), &events.RequestHeld{Request: events.Request{ID: "q"}})
	}
	for b.Loop() {
		w.tasks++
		w.apply(fmt.Sprint("t-", w.tasks), &events.Submitted{Workflow: "w"})
	}
}

func benchFacts() []*events.Fact {
	at := func(sequence uint64, b events.Body) *events.Fact {
		return &events.Fact{
			Epoch: events.Epoch{N: 4, ID: "0b3f6f0c"}, Sequence: sequence, Time: testStart, Task: "delivery-42", Cause: "s/3/120",
			CauseID: "order/1", CauseHash: "00112233445566ff", Body: b, Watermark: events.Position{Epoch: events.Epoch{N: 4, ID: "0b3f6f0c"}, Sequence: 1},
		}
	}
	return []*events.Fact{
		at(2, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: raw(`{"ownerId":"o-1","weight":1.5}`), Content: "c"}),
		at(3, &events.StepStarted{Step: "package", Agent: "package", Attempt: 1, CompleteBy: testStart, Input: raw(`{"id":"delivery-42"}`), Undoable: true}),
		at(4, &events.StepCompleted{Step: "package", Attempt: 1, Output: raw(`{"id":17}`), Outcome: events.Outcome{Instance: "package-0"}}),
	}
}

// bencher writes the facts of five-step tasks, 12 for each.
type bencher struct {
	b      *testing.B
	state  *events.State
	next   uint64
	tasks  int
	phase  int
	bodies []events.Body
}

func newBencher(b *testing.B) *bencher {
	w := &bencher{b: b, state: events.NewState(testPartition, nil)}
	if _, err := w.state.Apply(&events.Fact{Time: testStart, Body: &events.PartitionClaimed{ID: "a"}}, 0); err != nil {
		b.Fatal(err)
	}
	w.bodies = append(w.bodies, &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: raw(`{"ownerId":"o-1","weight":1.5}`), Content: "c"})
	for _, step := range []string{"account", "package", "transport", "drone", "delivery"} {
		w.bodies = append(w.bodies,
			&events.StepStarted{Step: step, Agent: step, Attempt: 1, CompleteBy: testStart, Input: raw(`{"id":"delivery-42"}`), Undoable: true},
			&events.StepCompleted{Step: step, Attempt: 1, Output: raw(`{"id":17}`)})
	}
	w.bodies = append(w.bodies, &events.TaskProcessed{Output: raw(`{"id":17}`)})
	return w
}

// one applies the next fact. Each phase goes through a thousand tasks, so that a batch touches a thousand.
func (w *bencher) one() {
	const cohort = 1000
	if w.phase == len(w.bodies)*cohort {
		w.phase = 0
		w.tasks += cohort
	}
	w.apply(fmt.Sprint("t-", w.tasks+w.phase%cohort), w.bodies[w.phase/cohort])
	w.phase++
}

func (w *bencher) apply(task string, b events.Body) {
	f := &events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: w.next, Time: testStart, Task: task, Body: b}
	if w.next > 0 {
		f.Watermark = events.Position{Epoch: f.Epoch, Sequence: w.next - 1}
	}
	if _, err := w.state.Apply(f, w.state.Next); err != nil {
		w.b.Fatal(err)
	}
	w.next++
}

// BenchmarkReadFact is BenchmarkDecodeFact with a single reader for all facts.
func BenchmarkReadFact(b *testing.B) {
	reader := events.NewState(testPartition, nil).Reader()
	for _, f := range benchFacts() {
		r, err := events.EncodeFact(f, testPartition, testSource)
		require.NoError(b, err)
		b.Run(string(f.Body.Name()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := reader.Decode(&r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkComparedHashes folds facts. It asks for the state hash after every hundredth fact and flushes after every few
// thousand. An iteration is one fact.
func BenchmarkComparedHashes(b *testing.B) {
	b.ReportAllocs()
	w := newBencher(b)
	n := 0
	for b.Loop() {
		w.one()
		if n++; n%100 == 0 {
			if _, err := w.state.Hash(); err != nil {
				b.Fatal(err)
			}
		}
		if n%5000 == 0 {
			if _, err := w.state.Flush(nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
