package supervisor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// RepliesPrefix begins the name of a reply topic in Send and in EffectsDelayed. The name itself follows: the topic belongs to the submitters
// and not to the namespace.
const RepliesPrefix = "replies/"

// replies sends the answers to submitters. Their topics are not ours: one may be missing, or refuse everything. Then one reply at a time is
// tried, so that a thousand tries of a dead topic do not take the room of other effects, and each reply is given up at its time.
type replies struct {
	*core
	// stopped are the topics whose latest answer was a refusal, by destination.
	stopped map[string]*stopped
}

// stopped is a topic that refused a reply.
type stopped struct {
	held []*effect
	// trying is the reply that is on its way, nil if none is; at is when the next one is tried.
	trying *effect
	at     events.Instant
}

const (
	// replyPause is how long a topic that refused a reply is left alone.
	replyPause = 5 * time.Second
	// delayedReplies bounds the reply topics that are delayed at once. Each has a row in the state of the partition and reads the log for itself,
	// and submitters choose the names, of which a setting may allow any number.
	delayedReplies = 64
)

func (x *replies) reset() { *x = replies{core: x.core} }

// reply is the effect of a fact that answers a submission. The answer follows from the fact and from what never changes about its task, so it
// says the same when it is sent again.
func (x *replies) reply(t *events.Task, f *events.Fact) []*effect {
	r, to, key := events.Reply{At: f.Time}, "", ""
	if b, ok := f.Body.(*events.InputRejected); ok && b.Reply != nil {
		r.ID, r.Workflow, r.State, r.Reason = b.Reply.ID, b.Reply.Workflow, events.ReplyRejected, b.Reason+": "+b.Detail
		to, key = b.Reply.To, b.Reply.KeyOf()
	} else if !ok && t != nil && t.ReplyTo != "" {
		r.ID, r.Workflow, r.Labels = t.ID, t.Workflow, t.Labels
		to, key = t.ReplyTo, cmp.Or(t.ReplyKey, t.ID)
		answers(t, f, &r)
	}
	if r.State == "" {
		return nil
	}
	s := events.Subject{ID: events.FactID(f, x.cfg.Partition), Source: x.source, Time: f.Time, Traceparent: f.Traceparent}
	record, err := events.EncodeReply(r, key, f.Position(), s)
	if err != nil {
		return nil
	}
	return []*effect{{kind: events.EffectReply, topic: RepliesPrefix + to, record: record}}
}

// answers fills in the state that a fact gives to its task, if it is one that is answered. t is the task as it is now.
func answers(t *events.Task, f *events.Fact, r *events.Reply) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		r.State = events.ReplyReceived
	case *events.StepStarted, *events.WaitStarted, *events.FanOutStarted:
		//mutant:processing-is-answered-once
		if f.Position() == t.ReplyBegan {
			r.State = events.ReplyProcessing
		}
	case *events.TaskParked:
		r.State, r.Reason = events.ReplyError, b.Reason
	case *events.TaskProcessed:
		r.State, r.Output = events.ReplyProcessed, b.Output
	case *events.TaskUndone:
		r.State, r.Reason = events.ReplyUndone, b.Reason
	case *events.TaskTerminated:
		r.State, r.Reason = events.ReplyTerminated, b.Reason
	}
}

// mayAnswer says whether some fact of that kind is answered.
func mayAnswer(f *events.Fact) bool {
	switch b := f.Body.(type) {
	case *events.Submitted, *events.StepStarted, *events.WaitStarted, *events.FanOutStarted, *events.TaskParked, *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated:
		return true
	case *events.InputRejected:
		return b.Reply != nil
	}
	return false
}

// replies says whether the destination is a reply topic.
func (d *delayed) replies() bool { return isReplies(d.destination) }

func isReplies(destination string) bool { return strings.HasPrefix(destination, RepliesPrefix) }

// hold keeps a reply back while its topic refuses.
func (x *replies) hold(y *effect) bool {
	s := x.stopped[y.destination()]
	if y.kind != events.EffectReply || s == nil || s.trying == y {
		return false
	}
	if y.of.since == 0 { // it waits for its destination
		y.of.since = x.now
	}
	s.held = append(s.held, y)
	return true
}

// took notes that a topic has taken a reply. The replies that were held follow, in order.
func (x *replies) took(y *effect) {
	to := y.destination()
	s := x.stopped[to]
	if s == nil {
		return
	}
	delete(x.stopped, to)
	slices.SortFunc(s.held, func(a, b *effect) int { return cmp.Compare(a.id, b.id) })
	x.outbox.fresh = append(x.outbox.fresh, s.held...)
}

// refusedBy takes the refusal of a reply. A topic that does not exist, or that nobody may write to, may take it later. One that is too large
// for its topic is sent without the output, or never.
func (x *replies) refusedBy(y *effect, refused error) {
	to := y.destination()
	s := x.stopped[to]
	if s != nil && s.trying == y {
		s.trying = nil
	}
	if errors.Is(refused, events.ErrTooLarge) {
		smaller, ok := events.WithoutOutput(y.record)
		if !ok {
			x.fail(y, refused.Error())
			return
		}
		x.delays.weigh(y, smaller.Size()-y.record.Size())
		y.record = smaller
		x.outbox.fresh = append(x.outbox.fresh, y)
		return
	}
	if s == nil {
		if x.stopped == nil {
			x.stopped = map[string]*stopped{}
		}
		s = &stopped{}
		x.stopped[to] = s
	}
	s.held, s.at = append(s.held, y), x.now.Add(replyPause)
}

func (x *replies) fail(y *effect, why string) {
	if !y.done && y.failed == "" {
		y.failed, x.outbox.failed = why, true
	}
}

// tick tries topics again whose pause is over, one reply each, and gives up what is too old.
func (x *replies) tick() {
	for _, to := range slices.Sorted(maps.Keys(x.stopped)) {
		s := x.stopped[to]
		if x.now < s.at || s.trying != nil && !s.trying.done {
			continue
		}
		s.held = slices.DeleteFunc(s.held, func(y *effect) bool { return y.done })
		if s.trying = nil; len(s.held) == 0 {
			delete(x.stopped, to)
			continue
		}
		s.trying = s.held[0]
		s.held = s.held[1:]
		x.outbox.fresh = append(x.outbox.fresh, s.trying)
	}
	for _, d := range x.delays.list {
		if d.replies() {
			x.giveUp(d)
		}
	}
	x.outbox.send()
}

// giveUp fails the replies for a delayed topic that are too old. Replies that old are for a delayed topic only.
func (x *replies) giveUp(d *delayed) {
	for _, e := range d.entries {
		if e.done() {
			continue
		}
		//mutant:reply-is-given-up
		if x.now.Sub(e.fact.Time) < x.cfg.ReplyFor {
			return
		}
		for _, y := range e.effects {
			x.fail(y, "the topic "+strings.TrimPrefix(d.destination, RepliesPrefix)+" has taken no reply for "+events.Duration(x.cfg.ReplyFor).String())
		}
	}
}

// tooMany says whether a reply topic cannot be delayed because too many are, and fails the replies for it.
func (x *replies) tooMany(destination string) bool {
	n := 0
	for _, d := range x.delays.list {
		if d.replies() {
			n++
		}
	}
	if !isReplies(destination) || n < delayedReplies {
		return false
	}
	for _, e := range x.outbox.entries {
		for _, y := range e.effects {
			if y.destination() == destination {
				x.fail(y, "the topic "+strings.TrimPrefix(destination, RepliesPrefix)+" takes no replies, and too many others do not either")
			}
		}
	}
	return true
}

// owes says whether a reply to a task may still be owed, although the watermark has passed its fact. A task that is forgotten cannot
// be answered.
func (x *replies) owes(t *events.Task) bool {
	if t.ReplyTo == "" {
		return false
	}
	after, delayed := x.state.Partition.Delayed[RepliesPrefix+t.ReplyTo]
	//mutant:sweep-waits-for-replies
	return delayed && after.Before(t.Last)
}
