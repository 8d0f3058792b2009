package supervisor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// answering makes a candidate allow replies in shop.replies and in topics that begin with billing.
func answering(c *candidate) {
	c.cfg.Namespace, c.cfg.Settings.ReplyTopics, c.cfg.SettingsOffset = "sagalog", "billing.*,shop.replies", 1
}

const toShop = `,"reply_to":"shop.replies","reply_key":"k-1"`

// outputs is oneStep with an output.
const outputs = oneStep + "output: \"${ steps.only.output }\"\n"

// replies lists what was sent to a reply topic, as "task state".
func (c *candidate) replies(topic string) (list []string) {
	for _, r := range c.sentTo(supervisor.RepliesPrefix + topic) {
		list = append(list, string(r.Header(events.HeaderSubject))+" "+strings.TrimPrefix(r.Header(events.HeaderType), events.TypeReplyPrefix))
	}
	return list
}

func replyIDs(records []events.Record) (list []string) {
	for _, r := range records {
		list = append(list, r.Header(events.HeaderID)+" "+r.Header(events.HeaderSequence))
	}
	return list
}

func isReply(s supervisor.Send) bool { return s.Kind == events.EffectReply }

func TestEachStateOfATaskIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, outputs)
	a := b.candidate("A", answering).own()
	b.submit("t1", "one", toShop)
	a.run()
	b.done("t1", "only", 1)
	a.run()
	b.submit("t2", "one", toShop)
	a.run()
	b.failed("t2", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	b.request(events.RequestRetry, "q-1", "t2")
	a.run()
	b.failed("t2", "only", 2, events.ClassPermanent, events.EffectNone)
	a.run()
	b.request(events.RequestCancel, "q-2", "t2")
	a.run()
	b.submit("t3", "one", toShop)
	a.run()
	b.failed("t3", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	b.request(events.RequestTerminate, "q-3", "t3")
	a.run()
	b.submit("t4", "unknown", toShop)
	a.run()
	b.submit("t5", "one", "") // asks for none
	a.run()
	require.Equal(t, []string{
		"t1 received", "t1 processing", "t1 processed",
		"t2 received", "t2 processing", "t2 error", "t2 error", "t2 undone",
		"t3 received", "t3 processing", "t3 error", "t3 terminated", "t4 rejected",
	}, a.replies("shop.replies"))

	list := a.sentTo(supervisor.RepliesPrefix + "shop.replies")
	require.True(t, slices.IsSortedFunc(list, func(x, y events.Record) int {
		return strings.Compare(x.Header(events.HeaderSequence), y.Header(events.HeaderSequence))
	}), "they are in the order of their sequence")
	_, accepted, _ := b.read()
	byID := map[string]*events.Fact{}
	for _, f := range accepted {
		byID[events.FactID(f, b.partition)] = f
	}
	for _, r := range list {
		require.Equal(t, "k-1", string(r.Key))
		require.Equal(t, events.ByKey, r.Partition)
		require.Contains(t, byID, r.Header(events.HeaderID), "the ID is that of a fact")
	}
	var processed, rejected events.Reply
	require.NoError(t, json.Unmarshal(list[2].Value, &processed))
	require.JSONEq(t, `{"v":1}`, string(processed.Output))
	require.NoError(t, json.Unmarshal(list[12].Value, &rejected))
	require.Equal(t, events.Reply{ID: "t4", Workflow: "unknown", State: events.ReplyRejected, Reason: rejected.Reason, At: rejected.At}, rejected)
	require.Contains(t, rejected.Reason, events.RejectUnknownWorkflow+": ")
	watermarkBehind(t, b, a)
	sameEverywhere(t, b, a)
}

func TestADuplicateIsNotAnsweredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", answering).own()
	b.submit("t1", "one", toShop)
	a.run()
	b.submit("t1", "one", toShop)
	a.run()
	require.Equal(t, []string{"t1 received", "t1 processing"}, a.replies("shop.replies"))
	b.submit("t1", "one", toShop+`,"priority":5`)
	a.run()
	require.Equal(t, []string{"t1 received", "t1 processing", "t1 rejected"}, a.replies("shop.replies"), "a conflict is a dead letter")
}

func TestAForbiddenReplyTopicIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", answering).own()
	for i, topic := range []string{"shop.other", "sagalog.reports", "dlq.sagalog.reports"} {
		b.submit(fmt.Sprint("t", i), "one", `,"reply_to":"`+topic+`"`)
		a.run()
		require.Equal(t, events.RejectInvalid, last[*events.InputRejected](b).Reason)
		require.Contains(t, last[*events.InputRejected](b).Detail, `topic "`+topic+`"`)
		require.Nil(t, last[*events.InputRejected](b).Reply)
	}
	require.Contains(t, b.dead(a, 0), "an operator allows it by `sagalog namespace set reply_topics=billing.*,shop.replies,shop.other`")
	require.Zero(t, countOf(kinds(a), events.EffectReply))
	b.submit("t9", "one", `,"reply_to":"billing.out"`)
	a.run()
	require.Equal(t, []string{"t9 received", "t9 processing"}, a.replies("billing.out"))
}

// dead returns the message of a dead letter.
func (b *bench) dead(a *candidate, i int) string {
	b.t.Helper()
	list := a.sentTo("dlq.submissions")
	require.Greater(b.t, len(list), i)
	return list[i].Header(supervisor.DeadMessage)
}

// The first owner gets no answer to any reply, wherever it stops. The next one sends them all, with the same IDs and sequences.
func TestRepliesAreTheSameWhenSentAgain(t *testing.T) {
	t.Parallel()
	for _, delayed := range []bool{false, true} {
		b := newBench(t, oneStep)
		a := b.candidate("A", answering).own()
		a.silent = isReply
		b.submit("t1", "one", toShop)
		a.run()
		b.done("t1", "only", 1)
		b.submit("t2", "unknown", toShop)
		a.run()
		if delayed {
			a.pass(11 * time.Second)
			s, _, _ := b.read()
			require.Contains(t, s.Partition.Delayed, supervisor.RepliesPrefix+"shop.replies")
		}
		var first []events.Record
		for _, s := range a.unanswered {
			first = append(first, s.Record)
		}
		require.Len(t, first, 4)

		c := b.candidate("C", answering).own()
		c.run()
		require.Equal(t, []string{"t1 received", "t1 processing", "t1 processed", "t2 rejected"}, c.replies("shop.replies"))
		again := c.sentTo(supervisor.RepliesPrefix + "shop.replies")
		require.Equal(t, replyIDs(first), replyIDs(again))
		for i := range first {
			require.JSONEq(t, string(first[i].Value), string(again[i].Value))
		}
		c.pass(11 * time.Second)
		watermarkBehind(t, b, c)

		d := b.candidate("D", answering).own()
		d.run()
		require.Empty(t, d.replies("shop.replies"), "the log says that they are taken")
	}
}

// A topic that does not exist refuses each reply. It holds back neither work nor the watermark nor another topic, few replies are tried, and
// once the topic exists all are sent in their order.
func TestAMissingReplyTopicHoldsBackOnlyItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", answering).own()
	missing, tries := true, 0
	a.refuse = func(s supervisor.Send) bool {
		if s.Topic != supervisor.RepliesPrefix+"shop.replies" {
			return false
		}
		tries++
		return missing
	}
	const many = 200
	b.submit("first", "one", toShop)
	a.run()
	b.done("first", "only", 1)
	before := tries
	for i := range many {
		id, to := fmt.Sprint("t", i), toShop
		if i%2 == 1 {
			to = `,"reply_to":"billing.out"`
		}
		b.submit(id, "one", to)
		a.run()
		b.done(id, "only", 1)
		a.pass(100 * time.Millisecond)
	}
	require.Equal(t, many+1, count[*events.TaskProcessed](b))
	require.Len(t, a.replies("billing.out"), 3*many/2)
	require.Less(t, tries-before, 6, "one reply is tried every five seconds")
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, supervisor.RepliesPrefix+"shop.replies")
	require.Len(t, s.Partition.Delayed, 1)

	missing = false
	a.pass(6 * time.Second)
	a.pass(6 * time.Second)
	require.Len(t, a.replies("shop.replies"), 3+3*many/2)
	late := a.sentTo(supervisor.RepliesPrefix + "shop.replies")[1:] // the first is the one that was tried
	require.True(t, slices.IsSortedFunc(late, func(x, y events.Record) int {
		return strings.Compare(x.Header(events.HeaderSequence), y.Header(events.HeaderSequence))
	}), "the others are in order")
	s, _, _ = b.read()
	require.Empty(t, s.Partition.Delayed)
	watermarkBehind(t, b, a)
}

func TestAReplyIsGivenUpAfterADay(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", answering).own()
	a.refuse = isReply
	b.submit("t1", "one", toShop)
	a.run()
	b.done("t1", "only", 1)
	a.run()
	for range 23 {
		a.pass(time.Hour)
	}
	require.Zero(t, count[*events.EffectFailed](b))
	for range 3 {
		a.pass(time.Hour)
	}
	require.Equal(t, 3, count[*events.EffectFailed](b))
	f := last[*events.EffectFailed](b)
	require.Equal(t, events.EffectReply, f.Kind)
	require.Equal(t, "the topic shop.replies has taken no reply for 24h", f.Error)
	for range 3 {
		a.pass(6 * time.Second)
	}
	s, _, _ := b.read()
	require.Empty(t, s.Partition.Delayed, "nothing is owed")
	watermarkBehind(t, b, a)
}

// A task is remembered while a reply to it is owed, since a reply that is sent again is made from its task.
func TestATaskIsRememberedWhileItIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	short := func(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }
	a := b.candidate("A", answering, short).own()
	a.refuse = isReply
	b.submit("t1", "one", toShop)
	a.run()
	b.done("t1", "only", 1)
	a.run()
	for range 30 {
		a.pass(10 * time.Second)
	}
	b.task("t1")
	a.refuse = nil
	for range 30 {
		a.pass(10 * time.Second)
	}
	require.Len(t, a.replies("shop.replies"), 3)
	require.Equal(t, 1, count[*events.TasksSwept](b))
}

func TestALargeOutputIsOmittedFromTheReply(t *testing.T) {
	t.Parallel()
	b := newBench(t, outputs)
	a := b.candidate("A", answering).own()
	a.refuse = func(s supervisor.Send) bool { return isReply(s) && len(s.Record.Value) > 1000 }
	a.refuseAs = fmt.Errorf("produce: %w", events.ErrTooLarge)
	b.submit("t1", "one", toShop)
	a.run()
	b.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)})
	a.run()
	list := a.sentTo(supervisor.RepliesPrefix + "shop.replies")
	require.Len(t, list, 3)
	var r events.Reply
	require.NoError(t, json.Unmarshal(list[2].Value, &r))
	require.True(t, r.OutputOmitted)
	require.Empty(t, r.Output)
	require.Equal(t, events.ReplyProcessed, r.State)
	watermarkBehind(t, b, a)

	// A topic that takes not even that gets no reply, and the log says so.
	a.refuse, a.refuseAs = isReply, errors.Join(events.ErrTooLarge)
	b.submit("t2", "one", toShop)
	a.run()
	a.pass(time.Second)
	require.Equal(t, events.EffectReply, last[*events.EffectFailed](b).Kind)
}

// Submitters choose the names of reply topics, of which each that takes nothing has a row in the state.
func TestFewReplyTopicsAreDelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", answering).own()
	a.refuse = isReply
	for i := range 100 {
		b.submit(fmt.Sprint("t", i), "one", fmt.Sprintf(`,"reply_to":"billing.%d"`, i))
	}
	a.run()
	for i := range 100 {
		b.done(fmt.Sprint("t", i), "only", 1)
	}
	a.run()
	for range 4 {
		a.pass(10 * time.Second)
	}
	s, _, _ := b.read()
	require.Len(t, s.Partition.Delayed, 64)
	require.Equal(t, 3*36, count[*events.EffectFailed](b))
	require.Contains(t, last[*events.EffectFailed](b).Error, "takes no replies, and too many others do not either")
	watermarkBehind(t, b, a)
}
