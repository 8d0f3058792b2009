//go:build synctests

package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// operable is a workflow whose tasks stand in many ways within three seconds: they run, retry, wait for a signal, are parked, are undone.
const operable = `
workflow: order
defaults: {complete_within: 5s, retry: {attempts: 2, backoff: 300ms, then: park}}
steps:
  reserve: {agent: stock, undo: {}}
  approve: {needs: [reserve], wait: {signal: go}, complete_within: 1h}
  charge: {needs: [approve], agent: bank, undo: {}}
`

var everyVerb = []events.Verb{
	events.RequestCancel, events.RequestPause, events.RequestResume, events.RequestRetry, events.RequestSkip, events.RequestComplete,
	events.RequestFail, events.RequestSignal, events.RequestRerun, events.RequestTerminate,
}

// operator asks for every verb.
type operator struct {
	w    *world
	dice *rand.Rand
	// asked holds the verb of each request, by the request's ID.
	asked map[string]events.Verb
}

// ask returns the record of a new request about a task.
func (o *operator) ask(verb events.Verb, task string) events.Record {
	q := events.Request{ID: fmt.Sprintf("%s-%d", verb, len(o.asked)), Kind: verb, Task: task, Reason: "because"}
	switch verb {
	case events.RequestSkip, events.RequestComplete, events.RequestFail:
		q.Step = []string{"reserve", "approve", "charge"}[o.dice.IntN(3)]
	case events.RequestSignal:
		q.Signal = "go"
	}
	o.asked[q.ID] = verb
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/test", Time: events.At(time.Now())})
	require.NoError(o.w.t, err)
	return r
}

// sending is a request that is sent some time after its task; a negative time is before it.
type sending struct {
	after  time.Duration
	topic  string
	record events.Record
}

// plan returns four requests for each task, half of them twice, in the order of their times.
func (o *operator) plan(list []string, length time.Duration) (plan []sending) {
	for _, id := range list {
		for range 4 {
			s := sending{time.Duration(o.dice.Int64N(int64(length))), o.w.topics.Reports(), o.ask(everyVerb[o.dice.IntN(len(everyVerb))], id)}
			switch o.dice.IntN(8) {
			case 0:
				s.after = -1
			case 1:
				s.topic = o.w.topics.Submissions()
			}
			plan = append(plan, s)
			if o.dice.IntN(2) == 0 {
				s.after += time.Duration(o.dice.Int64N(int64(200 * time.Millisecond)))
				plan = append(plan, s)
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b sending) int { return cmp.Compare(a.after, b.after) })
	return plan
}

// answers counts what the log says to a request.
type answers struct{ granted, refused, rejected int }

// answers returns the answers by the request's ID.
func (o *operator) answers() map[string]answers {
	all := map[string]answers{}
	for _, s := range o.w.watch.log() {
		if s.fate != events.FateAccepted {
			continue
		}
		var b struct{ Request string }
		switch s.fact.Body.(type) {
		case *events.RequestHeld: // it is answered when its task is accepted
			continue
		case *events.InputRejected: // the request of a task that has ended, or that does not come
			b.Request = s.fact.CauseID
		default:
			raw, err := json.Marshal(s.fact.Body)
			require.NoError(o.w.t, err)
			if json.Unmarshal(raw, &b) != nil { // it has another member of this name
				continue
			}
		}
		if o.asked[b.Request] == "" {
			continue
		}
		a := all[b.Request]
		switch s.fact.Body.(type) {
		case *events.InputRejected:
			a.rejected++
		case *events.RequestRefused:
			a.refused++
		default:
			a.granted++
		}
		all[b.Request] = a
	}
	return all
}

// judge checks that each request has an answer, and that none is granted or refused twice. It returns how often each verb was granted, and how
// often it was not.
func (o *operator) judge() (granted, not map[events.Verb]int) {
	granted, not = map[events.Verb]int{}, map[events.Verb]int{}
	all := o.answers()
	for _, id := range slices.Sorted(maps.Keys(o.asked)) {
		a := all[id]
		require.NotEqual(o.w.t, answers{}, a, "request %s has no answer", id)
		require.LessOrEqual(o.w.t, a.granted+a.refused, 1, "request %s is answered by its task once: %+v", id, a)
		if a.granted > 0 {
			granted[o.asked[id]]++
		} else {
			not[o.asked[id]]++
		}
	}
	return granted, not
}

// clear brings every task to an end.
func (o *operator) clear(list []string) {
	for range 20 {
		var left []string
		o.w.watch.mu.Lock()
		for _, id := range list {
			if t := o.w.watch.task(id); t == nil || !t.State.Ended() {
				left = append(left, id)
			}
		}
		o.w.watch.mu.Unlock()
		if len(left) == 0 {
			break
		}
		for _, id := range left {
			o.w.produce(o.w.topics.Reports(), -1, o.ask(events.RequestTerminate, id))
		}
		<-time.After(time.Second)
	}
	o.w.watch.ended(list...)
}

// Requests of every verb come at any time in the lives of their tasks, some before the task, some behind it in the submissions, half of
// them twice, while the owner is killed again and again: each is answered, and takes effect once or not at all.
func TestFaultEveryVerbIsAnsweredOnceUnderKills(t *testing.T) {
	rounds := 4
	if gate() {
		rounds = 20
	}
	const each, length = 50, 3 * time.Second
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		w.kinds = []string{"stock", "bank"}
		dice := rand.New(rand.NewPCG(*bubbleSeed, 13))
		o := &operator{w: w, dice: dice, asked: map[string]events.Verb{}}
		disk := projectortest.NewDisk()
		n := w.node(memory, on(disk))
		w.apply(n, operable)
		crew := w.hire(func(_ context.Context, a agent.Attempt) error {
			kind := (a.Attempt + len(a.Step) + len(a.Task) + int(a.Task[len(a.Task)-1])) % 4
			<-time.After(time.Duration(kind) * 100 * time.Millisecond)
			if kind == 1 {
				return agent.Permanent(agent.NoEffect(errors.New("no stock")))
			}
			return nil
		})
		w.windowKnown(n, "stock")
		w.windowKnown(n, "bank")
		var all []string
		for r := range rounds {
			list := ids(fmt.Sprintf("v%d-", r), each)
			all = append(all, list...)
			plan := o.plan(list, length)
			kill := time.Duration(dice.Int64N(int64(length)))
			var begun time.Time
			for _, s := range plan {
				if begun.IsZero() && s.after >= 0 {
					w.submit(list...)
					begun = time.Now()
				}
				if s.after >= kill && kill >= 0 {
					n.kill()
					disk = disk.PowerCut(0, dice)
					n = w.node(memory, on(disk))
					kill = -1
				}
				if !begun.IsZero() {
					<-time.After(time.Until(begun.Add(s.after)))
				}
				w.produce(s.topic, -1, s.record)
			}
			o.clear(list)
		}
		w.soon("every request is answered", func() bool { return len(o.answers()) == len(o.asked) })
		granted, not := o.judge()
		t.Logf("%d tasks, %d requests, %d kills, granted: %v, not: %v", len(all), len(o.asked), rounds, granted, not)
		for _, verb := range everyVerb {
			require.Positive(t, granted[verb], "%s is granted", verb)
			require.Positive(t, not[verb], "%s is refused", verb)
		}
		require.NoError(t, n.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.proveDisks(disk)
		w.observerAgrees()
	})
}
