package sim

import (
	"bytes"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Answers follows the facts of one task and says which of them are answered in its reply topic. It is independent of the owner's code.
type Answers struct {
	to    string
	begun bool
}

// Next takes the next fact of the task. It returns the topic in which the fact is answered, "" if it is not.
func (a *Answers) Next(f *events.Fact) string {
	switch b := f.Body.(type) {
	case *events.Submitted:
		*a = Answers{to: b.ReplyTo}
	case *events.StepStarted, *events.WaitStarted, *events.FanOutStarted:
		if a.begun {
			return ""
		}
		a.begun = true
	case *events.TaskParked, *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated:
	default:
		return ""
	}
	return a.to
}

// AnsweredRejection returns the topic in which a rejected submission is answered, "" if it is not.
func AnsweredRejection(b *events.InputRejected) string {
	if b.Reply == nil {
		return ""
	}
	return b.Reply.To
}

// replyTopics are the topics that the settings of a world allow, and replyFor is how long, in seconds, its owners try a reply.
const (
	replyTopics = "replies.*"
	replyFor    = 90
)

// answers are the replies to the submitters of a partition's tasks.
type answers struct {
	p     *partition
	tasks map[string]*Answers
	// owed is the topic of each fact that is answered, by the ID of the fact. landed is the first reply to it.
	owed   map[string]string
	landed map[string]events.Record
}

// after takes the next accepted fact of the partition.
func (a *answers) after(f *events.Fact) {
	to := ""
	switch b := f.Body.(type) {
	case *events.InputRejected:
		to = AnsweredRejection(b)
	case *events.EffectFailed:
		if of := a.p.facts[events.FactID(&events.Fact{Epoch: b.Of.Epoch, Sequence: b.Of.Sequence}, a.p.id)]; b.Kind == events.EffectReply {
			a.p.w.saw(sawReplyGivenUp)
			if of == nil || f.Time.Sub(of.Time).Seconds() < replyFor {
				a.p.w.fail("a reply is given up before its time: %s", b.Of)
			}
		}
	default:
		if f.Task == "" {
			return
		}
		if a.tasks[f.Task] == nil {
			a.tasks[f.Task] = &Answers{}
		}
		to = a.tasks[f.Task].Next(f)
	}
	if to != "" {
		a.owed[events.FactID(f, a.p.id)] = to
		a.p.effects.owed = append(a.p.effects.owed, debt{f.Position(), a.p.effects.key(f.Position(), events.EffectReply), f, supervisor.RepliesPrefix + to})
	}
}

// arrives checks a reply that lands: it says the same as an earlier one to the fact.
func (a *answers) arrives(topic string, r events.Record) {
	id := r.Header(events.HeaderID)
	if to := a.owed[id]; topic != supervisor.RepliesPrefix+to {
		a.p.w.fail("the reply to %s lands in %q and not in %q", id, topic, to)
	}
	a.p.w.saw(sawReply)
	was, again := a.landed[id]
	if !again {
		a.landed[id] = r
		return
	}
	a.p.w.saw(sawReplyAgain)
	if !bytes.Equal(was.Value, r.Value) || !bytes.Equal(was.Key, r.Key) || was.Header(events.HeaderSequence) != r.Header(events.HeaderSequence) {
		a.p.w.fail("the reply to %s is %s at first and %s later", id, was.Value, r.Value)
	}
}

func isReplies(topic string) bool { return strings.HasPrefix(topic, supervisor.RepliesPrefix) }
