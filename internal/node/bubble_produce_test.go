//go:build synctests

package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Each producer of the engine receives each answer that leaves the outcome of an append open: the owner (whose epoch it
// ends), the producer of effects, the agents, and the client that submits.
func TestFaultWrongAnswersToAppendsLoseNothing(t *testing.T) {
	applied := []string{"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
	refused := []string{
		"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR",
		"NOT_LEADER_FOR_PARTITION", "UNKNOWN_SERVER_ERROR",
	}
	for _, topic := range []string{"sagalog.events", "sagalog.reports", "sagalog.submissions", "sagalog.work.stock"} {
		for _, code := range append(applied, refused...) {
			t.Run(topic+" "+code, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w, brokers := setupFake(t, 1, 1)
					f := begin(w, 1)
					hits := 0
					f.during("t", 4, 300*time.Millisecond, func(round int) {
						fault := brokers.Fault(kafkatest.Fault{Request: "Produce", Topic: topic, Code: code, Count: 2})
						if topic == w.topics.Submissions() && code == "UNKNOWN_SERVER_ERROR" {
							for fault.Hits() < 2 {
								_, err := w.producer.ProduceSync(t.Context(), under(w, submission("refused", nil)))
								require.Error(t, err, "the client gets an error")
							}
						}
						f.watch.ended(f.work(fmt.Sprintf("x-%d", round), 1)...)
						require.Positive(t, fault.Hits(), "the fault occurred")
						hits += fault.Hits()
						fault.Remove()
					})
					f.quick("after", 5*time.Second)
					t.Logf("%d answers; %d epochs, %d void facts", hits, epochs(w.watch.log()), voidFacts(w.watch.log()))
					if topic == w.topics.Events() && (code == "OUT_OF_ORDER_SEQUENCE_NUMBER" || code == "UNKNOWN_PRODUCER_ID") {
						require.Greater(t, epochs(w.watch.log()), 1, "the owner gave up its epoch")
					}
					f.prove()
				})
			})
		}
	}
}

// under creates a submission for its home partition.
func under(w *world, r events.Record) events.Record {
	r.Topic, r.Partition = w.topics.Submissions(), events.Home(string(r.Key), w.parts)
	return r
}

// Some of the owner's appends are lost in transit, while later ones on the same connection arrive.
func TestFaultALaterAppendAfterALostOneIsVoid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		lost := 0
		w.disturb(f.nodes[0], func(n int) fate {
			if n%11 == 4 && lost < 6 {
				lost++
				return fate{lost: true}
			}
			return fate{}
		})
		for i := range 6 {
			f.work(string(rune('a'+i)), 10)
			<-time.After(300 * time.Millisecond)
		}
		f.watch.ended(f.tasks...)
		w.disturb(f.nodes[0], nil)
		require.Positive(t, lost)
		f.quick("after", 5*time.Second)
		t.Logf("%d appends were lost; %d epochs", lost, epochs(w.watch.log()))
		f.prove()
	})
}

// The log has a gap before a fact of the owner's epoch, as if the broker had lost the preceding fact. That fact and all
// later ones of the epoch are void, and the owner claims again.
func TestFaultAGapVoidsTheRestOfTheEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 5)...)
		w.watch.mu.Lock()
		ahead := *w.watch.facts[len(w.watch.facts)-1].fact
		p := w.watch.states[0].Partition
		w.watch.mu.Unlock()
		before := epochs(w.watch.log())
		ahead.Epoch, ahead.Sequence = p.Epoch, p.NextSequence+1000
		r, err := events.EncodeFact(&ahead, 0, "/sagalog/events/0/node-1")
		require.NoError(t, err)
		w.produce(w.topics.Events(), 0, r)
		f.quick("b", 5*time.Second)
		require.Greater(t, epochs(w.watch.log()), before, "the owner claimed again, and once more if something of its old epoch came behind that")
		void, gap := 0, false
		for _, s := range w.watch.log() {
			gap = gap || s.fact.Sequence == ahead.Sequence && s.fact.Epoch == ahead.Epoch
			if _, claim := s.fact.Body.(*events.PartitionClaimed); claim || !gap || s.fact.Epoch != ahead.Epoch {
				continue
			}
			void++ // the fact behind the gap, and what the owner had on its way
			require.Equal(t, events.FateVoid, s.fate, "offset %d", s.offset)
		}
		require.Positive(t, void)
		require.Equal(t, void, voidFacts(w.watch.log()), "nothing before the gap is void")
		f.prove()
	})
}

// Every record (input, fact, claim, work) is in the log twice. The second one is an identical copy further on.
func TestFaultDoubledRecordsChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 8)...)
		doubled := 0
		for _, topic := range []string{w.topics.Submissions(), w.topics.Reports(), w.topics.Work("stock"), w.topics.Events(), w.topics.Definitions()} {
			for p := range w.parts {
				if topic == w.topics.Definitions() && p > 0 {
					continue
				}
				records := w.read(topic, p)
				doubled += len(records)
				w.produce(topic, p, records...)
			}
		}
		require.Greater(t, doubled, 100)
		f.watch.ended(f.work("b", 8)...)
		for _, id := range f.tasks {
			require.Equal(t, whole, w.watch.story(id))
		}
		require.Empty(t, w.read(w.topics.DeadSubmissions(), 0), "a repeat is not rejected")
		require.Empty(t, w.read(w.topics.DeadReports(), 0))
		t.Logf("%d records were doubled, %d calls repeated", doubled, f.crew.repeats())
		f.prove()
	})
}

// Reports of attempts that have timed out arrive after the reports of later attempts.
func TestFaultLateReportsChangeNoOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		reports, err := w.cluster.TopicID(t.Context(), w.topics.Reports())
		require.NoError(t, err)
		late := 0
		var until time.Time
		f.crew.net.inject([][]byte{reports[:], []byte(w.topics.Reports())}, func(int) fate {
			if time.Now().Before(until) {
				late++
				return fate{cutBefore: true}
			}
			return fate{}
		})
		for i := range 4 {
			until = time.Now().Add(6 * time.Second)
			f.work(string(rune('a'+i)), 4)
			<-time.After(8 * time.Second)
			w.produce(w.topics.Reports(), 0, w.read(w.topics.Reports(), 0)...) // reports of earlier attempts that come after reports of later ones
		}
		f.watch.ended(f.tasks...)
		timeouts := 0
		for _, s := range w.watch.log() {
			if _, ok := s.fact.Body.(*events.Timeout); ok {
				timeouts++
			}
		}
		require.Positive(t, late)
		require.Positive(t, timeouts, "attempts were given up before their reports came")
		t.Logf("appends of reports failed %d times, %d attempts timed out", late, timeouts)
		f.prove()
	})
}
