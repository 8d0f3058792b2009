//go:build synctests

package node_test

import (
	"context"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// period is the time that a long fault takes, with its partition if it has one.
type period struct {
	partition int32
	from, to  time.Time
}

// lasts notes that a fault ends after d, even if the storm is over by then.
func (s *storm) lasts(d time.Duration) time.Duration {
	if end := time.Now().Add(d); end.After(s.until) {
		s.until = end
	}
	return d
}

// agentsLeave stops all crews for a minute or two, and now and then for an hour. (An hour costs as much as twenty seeds without one.)
//
// Not while a node's clock is wrong: the complete-by times that it sets are wrong too, so no rule bounds how late a request is carried
// out that waits for its agent, and an unkind service does not refuse it.
func (s *storm) agentsLeave() {
	if s.skewed || !s.back.IsZero() {
		return
	}
	d := time.Duration(1+s.dice.IntN(2)) * time.Minute
	if s.dice.IntN(40) == 0 {
		d = time.Hour
	}
	s.note("the agents leave for %s", d)
	for _, c := range s.crews {
		if s.dice.IntN(2) == 0 {
			c.net.cut()
		}
		c.leave()
	}
	s.back = time.Now().Add(s.lasts(d))
	s.absences = append(s.absences, period{from: time.Now(), to: s.back})
}

// comeBack hires new crews when the time of those that left is over.
func (s *storm) comeBack() {
	if s.back.IsZero() || time.Now().Before(s.back) {
		return
	}
	s.note("the agents come back")
	s.reached["the agents came back"]++
	s.back = time.Time{}
	for i := range s.crews {
		s.retired = append(s.retired, s.crews[i])
		s.crews[i] = s.hire(s.ledger.act)
	}
}

// transaction opens a transaction on a partition of an input, for seconds or minutes.
func (s *storm) transaction() {
	all := garbage()
	r := all[s.dice.IntN(len(all))]
	r.Topic, r.Partition = []string{s.topics.Reports(), s.topics.Submissions()}[s.dice.IntN(2)], int32(s.dice.IntN(int(s.parts)))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	x := kafkatest.BeginTransaction(s.t, s.brokers)
	open := x.Try(ctx, r) == nil
	if open {
		s.reached["a transaction held an input back"]++
	}
	d, commit := time.Duration(1+s.dice.IntN(10))*time.Second, s.dice.IntN(2) == 0
	if s.dice.IntN(3) == 0 {
		d *= 12
	}
	s.note("a transaction on %s/%d stays open for %s, and commits: %v", r.Topic, r.Partition, d, commit)
	if open && r.Topic == s.topics.Reports() {
		s.holds = append(s.holds, period{r.Partition, time.Now(), time.Now().Add(d)})
	}
	time.AfterFunc(s.lasts(d), func() {
		for x.End(context.Background(), commit) != nil {
			<-time.After(time.Second)
		}
	})
}

// nothingRashHappened checks what owners may not do in the meantime: no attempt times out for want of reports behind an open
// transaction, and none starts while there is no agent. The times of the facts are those of the owners' clocks.
func (s *storm) nothingRashHappened() {
	if s.skewed {
		return
	}
	for _, f := range s.watch.log() {
		if f.fate != events.FateAccepted {
			continue
		}
		at := f.fact.Time.Time()
		switch b := f.fact.Body.(type) {
		case *events.Timeout:
			for _, x := range s.holds {
				rash := x.partition == f.partition && b.CompleteBy.Time().After(x.from) && at.Before(x.to.Add(-10*time.Millisecond)) // facts have whole milliseconds
				require.False(s.t, rash, "%s.%s timed out at %s, while reports were held back", f.fact.Task, b.Step, at)
			}
		case *events.StepStarted:
			if !slices.Contains(byTasks, b.Step) {
				s.whilePresent(f, at)
			}
		case *events.CompensationStarted:
			if !slices.Contains(byTasks, b.Step) {
				s.whilePresent(f, at)
			}
		}
	}
}

// whilePresent checks that an attempt began while there were agents, or shortly after they had left.
func (s *storm) whilePresent(f seen, at time.Time) {
	for _, x := range s.absences {
		known := x.from
		if s.healed.After(known) { // before, a node may not have heard
			known = s.healed
		}
		require.False(s.t, at.After(known.Add(10*time.Second)) && at.Before(x.to), "%s of %s at %s, while there were no agents", f.fact.Body.Name(), f.fact.Task, at)
	}
}
