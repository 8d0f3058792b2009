package supervisor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const otherAgent = `
workflow: other
defaults: {complete_within: 1h}
steps:
  only: {agent: beta}
`

const longStep = `
workflow: long
defaults: {complete_within: 1h}
steps:
  only: {agent: alpha}
`

// One dead letter is refused for good, as when it is larger than its topic now takes. The topic takes all others.
func TestOneRefusedDeadLetterHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	a.refuse = func(s supervisor.Send) bool {
		return s.Kind == events.EffectDeadLetter && s.Record.Header(supervisor.DeadOffset) == "0"
	}
	const many = 3000
	for i := range many {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
		if i == 10 {
			a.run()
			a.pass(11 * time.Second) // the dead letters are delayed from here on
		}
	}
	a.run()
	for range 20 {
		a.pass(time.Second)
	}
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "dlq.submissions")
	require.Equal(t, many-1, len(a.sentTo("dlq.submissions")))
}

// The partition's log is read back for the alerts while attempts run. Each attempt counts once for its instance.
func TestReadingBackCountsNoAttemptTwice(t *testing.T) {
	t.Parallel()
	for name, delayed := range map[string]bool{"nothing is delayed": false, "the alerts are delayed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, longStep)
			b.partitions = 4
			a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 20 }).own()
			a.o.SetOffers(b.now, offers(2000, reads("one", 4000, 0, 2), reads("two", 4000, 1, 3)))
			ids := home(4, 1240)
			var alerts []supervisor.Send
			if delayed {
				a.silent = func(s supervisor.Send) bool {
					if s.Topic == "alerts" {
						alerts = append(alerts, s)
					}
					return s.Topic == "alerts"
				}
			}
			// 600 tasks raise two alerts each, more than fit in memory; 40 attempts run beside the last of them.
			for i, id := range ids[:600] {
				b.submit(id, "long", "")
				a.run()
				b.failed(id, "only", 1, events.ClassPermanent, events.EffectNone)
				a.run()
				if i == 6 {
					a.pass(time.Second) // the alerts are delayed from here on
				}
			}
			for _, id := range ids[600:640] {
				b.submit(id, "long", "")
			}
			a.run()
			for _, y := range alerts {
				a.o.Sent(b.now, y.Generation, y.ID, nil)
			}
			a.silent = nil
			a.run()
			for range 3 {
				a.pass(time.Second)
			}
			s, _, _ := b.read()
			require.Empty(t, s.Partition.Delayed)
			for _, id := range ids[600:640] {
				b.done(id, "only", 1)
			}
			a.run()
			// Nothing runs now, so work goes to the instance at home as long as that has room: 1000 attempts.
			from := len(a.sent)
			a.o.SetOffers(b.now, offers(2000, reads("one", 200, 0, 2), reads("two", 200, 1, 3)))
			for _, id := range ids[640:690] {
				b.submit(id, "long", "")
			}
			a.run()
			require.Equal(t, map[int32]int{0: 50}, spread(a, from))
		})
	}
}

// Facts go on being written while the log is read back, one during each read.
func TestADelayedDestinationCatchesUpUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, otherAgent)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	var waiting []supervisor.Send
	a.silent = func(s supervisor.Send) bool {
		if s.Kind == events.EffectDeadLetter {
			waiting = append(waiting, s)
		}
		return s.Kind == events.EffectDeadLetter
	}
	for range 1500 {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	}
	a.run()
	a.pass(time.Second)
	a.silent = nil // the topic takes everything again
	a.hold["ReadFacts"] = true
	for _, y := range waiting {
		a.o.Sent(b.now, y.Generation, y.ID, nil)
	}
	a.run()
	pages, records := 0, int64(0)
	for i := range 100 {
		reads := held[supervisor.ReadFacts](a)
		if len(reads) == 0 {
			break
		}
		require.Len(t, reads, 1)
		b.submit(fmt.Sprintf("t%03d", i), "other", "")
		a.run()
		pages++
		records = reads[0].To - reads[0].From
		a.todo = nil
		a.o.Replayed(b.now, reads[0].Generation, reads[0].Destination, append([]events.Record(nil), b.log[reads[0].From:reads[0].To]...), reads[0].To)
		a.run()
	}
	require.Less(t, pages, 100, "there is always one more page to read; the last one was of %d records", records)
	require.Positive(t, count[*events.EffectsCaughtUp](b))
}

// The alerts were away for long, an agent only for a moment. Both take everything again.
func TestADestinationFarBehindHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, longStep, otherAgent)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	a.silent = func(s supervisor.Send) bool { return s.Topic == "alerts" }
	b.submit("failed", "one", "")
	a.run()
	b.failed("failed", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	a.pass(11 * time.Second) // the alerts are delayed from here on
	for i := range 2000 {
		id := fmt.Sprintf("t%04d", i)
		b.submit(id, "other", "")
		if i%100 == 99 {
			a.run()
			for k := i - 99; k <= i; k++ {
				b.done(fmt.Sprintf("t%04d", k), "only", 1)
			}
			a.run()
		}
	}
	a.silent = func(s supervisor.Send) bool { return s.Topic == "alerts" || s.Topic == "work.alpha" }
	b.submit("stuck", "long", "")
	a.run()
	a.pass(11 * time.Second) // and the agent from here on
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "alerts")
	require.Contains(t, s.Partition.Delayed, "work.alpha")

	c := b.candidate("C")
	pages := 0
	c.hold["ReadFacts"] = true
	c.o.Assign(b.now)
	c.run()
	for range 100 {
		if len(c.work()) > 0 {
			break
		}
		for _, r := range held[supervisor.ReadFacts](c) {
			if r.Destination != "" {
				pages++
			}
			c.do(r)
		}
		c.todo = nil
		c.pass(10 * time.Millisecond)
	}
	require.Contains(t, c.work(), "stuck.only do#1")
	require.LessOrEqual(t, pages, 3, "of pages read before the work that is one page behind")
}

// The reports cannot be read to their end, so the work of an earlier owner is kept. Nothing takes the dead letters.
func TestKeptWorkLetsNothingPileUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("stuck", "long", "")
	a.run()
	b.request(events.RequestCancel, "r1", "unknown") // in the topic, and not readable behind an open transaction
	c := b.candidate("C", func(c *candidate) { c.cfg.Unacknowledged = 100 })
	c.hold["reports"] = true
	c.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectDeadLetter }
	c.own()
	for i := range 5000 {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
		if i%500 == 499 {
			c.run()
			c.pass(11 * time.Second)
		}
	}
	require.Empty(t, c.work())
	require.Less(t, c.o.Status().Unsent, 1600)
}

// Work that was kept back for the reports is sent at last. Its agent takes it, only not within the same call.
func TestWorkThatWasKeptIsNotDelayedWhenItIsSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("stuck", "long", "")
	a.run()
	b.request(events.RequestCancel, "r1", "unknown")
	c := b.candidate("C")
	c.hold["reports"] = true
	c.own()
	c.pass(11 * time.Second)
	require.Empty(t, c.work())
	c.hold["Send"] = true
	c.hold["reports"] = false
	c.pass(10 * time.Millisecond) // now it is sent
	require.NotEmpty(t, held[supervisor.Send](c))
	c.hold["Send"] = false
	c.run()
	require.Equal(t, []string{"stuck.only do#1"}, c.work())
	require.Zero(t, count[*events.EffectsDelayed](b))
}

// The log says that the dead letters are taken up to a position behind the watermark, which another destination holds.
func TestATakeOverSendsNothingThatTheLogSaysIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := b.candidate("A").own()
	var waiting []supervisor.Send
	a.silent = func(s supervisor.Send) bool {
		at := s.Record.Header(supervisor.DeadOffset)
		if stuck := s.Topic == "dlq.submissions" && (at == "0" || at == "4"); stuck {
			waiting = append(waiting, s)
			return true
		}
		return s.Topic == "work.alpha"
	}
	garbage := events.Record{Value: []byte("garbage")}
	b.put(events.Submissions, garbage)
	a.run()
	a.pass(11 * time.Second)
	require.Equal(t, 1, count[*events.EffectsDelayed](b))
	a.pass(9 * time.Second)
	b.submit("t1", "long", "") // its work holds the watermark for the next ten seconds
	a.run()
	for range 3 { // of these the last is stuck
		b.put(events.Submissions, garbage)
	}
	a.run()
	a.o.Sent(b.now, waiting[0].Generation, waiting[0].ID, nil)
	a.run()
	a.pass(1100 * time.Millisecond)
	s, _, _ := b.read()
	after, w := s.Partition.Delayed["dlq.submissions"], s.Partition.Watermark
	require.True(t, w.Before(after), "the sequence: %s %s", w, after)
	c := b.candidate("C").own()
	var offsets []string
	for _, r := range c.sentTo("dlq.submissions") {
		offsets = append(offsets, r.Header(supervisor.DeadOffset))
	}
	require.Equal(t, []string{"4"}, offsets)
}

// The request of a task was carried out, but its topic never answered. The task is forgotten and its ID used again.
func TestARefusedRequestOfAnEarlierTaskFailsNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }).own()
	var first []supervisor.Send
	a.silent = func(s supervisor.Send) bool {
		if len(first) == 0 && s.Topic == "work.alpha" {
			first = append(first, s)
			return true
		}
		return false
	}
	b.submit("t1", "long", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	for range 10 {
		a.pass(15 * time.Second)
	}
	if count[*events.TasksSwept](b) == 0 {
		return // it would be right to wait for the answer
	}
	b.submit("t1", "long", "")
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work(), "the new attempt is with its agent")
	a.o.Sent(b.now, first[0].Generation, first[0].ID, errors.New("refused"))
	a.run()
	require.True(t, b.task("t1").Running("only", events.Do, 1), "%+v, and then %v", last[*events.EffectFailed](b).Failed, a.work())
}

// An alert that waited for long is sent after its task was forgotten and its ID used again.
func TestAnAlertNamesTheWorkflowOfItsOwnTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps, longStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }).own()
	a.silent = func(s supervisor.Send) bool { return s.Topic == "alerts" }
	b.submit("t1", "two", "")
	a.run()
	b.failed("t1", "first", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t1").State)
	for range 10 {
		a.pass(15 * time.Second)
	}
	require.Equal(t, 1, count[*events.TasksSwept](b))
	b.submit("t1", "long", "")
	a.run()
	c := b.candidate("C").own()
	list := c.sentTo("alerts")
	require.NotEmpty(t, list)
	for i := range list {
		require.NotContains(t, string(list[i].Value), `"workflow":"long"`)
	}
}

// A process slept. What it had not sent by then is not its destination's fault.
func TestASleepDelaysNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "long", "")
	a.run()
	b.now = b.now.Add(15 * time.Second)
	a.wake()
	a.hold["Send"] = false
	a.pass(time.Millisecond)
	require.Equal(t, []string{"t1.only do#1"}, a.work())
	require.Zero(t, count[*events.EffectsDelayed](b))
}

// Effects are decided while EffectsDelayed or EffectsCaughtUp is in flight, and the epoch ends with that many of the facts in the log.
func TestNoEffectIsLostWhereverTheEpochEnds(t *testing.T) {
	t.Parallel()
	for _, caughtUp := range []bool{false, true} {
		for landed := range 7 {
			b := newBench(t, oneStep)
			small := func(c *candidate) { c.cfg.BatchFacts, c.cfg.InFlight = 4, 6 }
			a := b.candidate("A", small).own()
			var waiting []supervisor.Send
			a.silent = func(s supervisor.Send) bool { waiting = append(waiting, s); return true }
			b.put(events.Submissions, events.Record{Value: []byte("garbage")})
			a.run()
			if caughtUp {
				a.pass(11 * time.Second)
			}
			a.hold["Append"] = true
			for range 6 {
				b.put(events.Submissions, events.Record{Value: []byte("garbage")})
			}
			a.run() // the first batch is in flight
			if caughtUp {
				a.o.Sent(b.now, waiting[0].Generation, waiting[0].ID, nil)
				a.run()
			} else {
				b.now = b.now.Add(9 * time.Second)
				a.o.Tick(b.now)
				b.now = b.now.Add(1100 * time.Millisecond)
				a.o.Tick(b.now)
			}
			for range 12 {
				b.put(events.Submissions, events.Record{Value: []byte("garbage")})
			}
			a.run()
			batches := held[supervisor.Append](a)
			found := false
			for i, x := range batches {
				if i < landed {
					b.land(x.Records...)
				}
				for k := range x.Records {
					f, err := events.DecodeFact(&x.Records[k])
					require.NoError(t, err)
					name := f.Body.Name()
					found = found || caughtUp && name == events.NameEffectsCaughtUp || !caughtUp && name == events.NameEffectsDelayed
				}
			}
			require.True(t, found, "the fact is in flight")
			c := b.candidate("C", small).own()
			c.pass(11 * time.Second)
			sent := map[string]bool{}
			if caughtUp {
				sent["0"] = true
			}
			for _, r := range c.sentTo("dlq.submissions") {
				sent[r.Header(supervisor.DeadOffset)] = true
			}
			require.Len(t, sent, 19, "caught up %v, %d of %d batches landed, log has %d delayed and %d caught up", caughtUp, landed, len(batches), count[*events.EffectsDelayed](b), count[*events.EffectsCaughtUp](b))
			s, _, _ := b.read()
			require.Empty(t, s.Partition.Delayed)
		}
	}
}
