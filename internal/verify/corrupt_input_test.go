package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// deadOf finds the dead letter of a rejection.
func (h *harmed) deadOf(f found) found {
	for _, topic := range deadTopics {
		if list := h.all(topic, isDeadOf(f)); len(list) > 0 {
			return list[0]
		}
	}
	h.t.Fatalf("no dead letter of %s", f.place())
	return found{}
}

var deadTopics = []string{"dlq.sagalog.submissions", "dlq.sagalog.reports"}

func isDeadOf(f found) func(found) bool {
	id := f.Header(events.HeaderID)
	return func(d found) bool { return d.Header("__dlq.errors.fact") == id }
}

var inputCorruptions = []corruption{
	{"an acceptance is missing", verify.CheckInputs, "lost", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "", func(f found) bool { // a later one says that it was judged
			return slices.ContainsFunc(h.topics[topicEvents][f.part][f.index+1:], func(r events.Record) bool { return nameOf(r) == events.NameSubmitted })
		})
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"a task is accepted twice", verify.CheckInputs, "accepted_twice", false, func(h *harmed) string {
		f, into := late(h, events.NameSubmitted, "", "")
		return h.again(f, into).place()
	}},
	{"a submission differs from the accepted one", verify.CheckInputs, "input_changed", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		h.inputOf(f).alter("input", map[string]any{"n": 99})
		return f.place()
	}},
	{"an acceptance is of another submission", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		f.alter("content", strings.Repeat("ab", 32))
		return f.place()
	}},
	{"a task is answered although its submission does not ask for it", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		f.alter("reply_to", "shop.replies")
		return f.place()
	}},
	{"a task is answered in a topic that is not allowed", verify.CheckInputs, "reply_topic", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		f.alter("reply_to", "shop.replies")
		return f.place()
	}},
	{"a rejection is answered although its input does not ask for it", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "")
		f.alter("reply", map[string]string{"to": "shop.replies"})
		return f.place()
	}},
	{"a label of the submission is left out", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.labelled()
		f.alter("labels", map[string]string{"region": "elsewhere"})
		return f.place()
	}},
	{"the priority of the submission does not count", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.labelled()
		f.alter("priority", 4)
		return f.place()
	}},
	{"an outcome is that of an earlier task with the same ID", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		r := h.inputOf(f)
		r.alter("ticket", "1-before/7")
		set(f.Record, events.HeaderCauseHash, events.HashInput(r.Record))
		return f.place()
	}},
	{"an accepted submission is missing", verify.CheckInputs, "no_input", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		h.drop(h.inputOf(f))
		return f.place()
	}},
	{"two acceptances have exchanged causes", verify.CheckInputs, "judged_twice", false, func(h *harmed) string {
		a := h.fact(events.NameSubmitted, "")
		b := h.fact(events.NameSubmitted, "", func(f found) bool { return f.part == a.part && f.index != a.index })
		if a.index > b.index {
			a, b = b, a
		}
		x, y := a.Header(events.HeaderCause), b.Header(events.HeaderCause)
		set(a.Record, events.HeaderCause, y)
		set(b.Record, events.HeaderCause, x)
		return b.place()
	}},
	{"a cause is in another partition", verify.CheckInputs, "cause", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		set(f.Record, events.HeaderCause, strings.Replace(f.Header(events.HeaderCause), "s/", "s/7", 1))
		return f.place()
	}},
	{"a rejection is missing", verify.CheckInputs, "lost", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "", func(f found) bool { return strings.HasPrefix(f.Header(events.HeaderCause), "s/") })
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"a rejected report is passed", verify.CheckInputs, "report_lost", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "", func(f found) bool { return strings.HasPrefix(f.Header(events.HeaderCause), "r/") })
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"a result is passed while its attempt runs", verify.CheckInputs, "report_lost", false, func(h *harmed) string {
		// The report must be judged in a later batch than the start, so another report's fact must be between them. (With
		// the last step, the end of the task would be wrong instead.)
		f := h.fact(events.NameStepCompleted, "", func(f found) bool {
			all := h.topics[topicEvents][f.part]
			next := slices.IndexFunc(all[f.index+1:], func(r events.Record) bool { return string(r.Key) == string(f.Key) })
			if next < 0 || nameOf(all[f.index+1+next]) == events.NameTaskProcessed || strings.HasPrefix(string(f.Key), "limit-") {
				return false
			}
			list := all[:f.index]
			start := slices.IndexFunc(list, func(r events.Record) bool {
				return string(r.Key) == string(f.Key) && nameOf(r) == events.NameStepStarted && found{Record: &r}.text("step") == f.text("step") && found{Record: &r}.text("attempt") == f.text("attempt")
			})
			return slices.ContainsFunc(list[start+1:], func(r events.Record) bool { return strings.HasPrefix(r.Header(events.HeaderCause), "r/") }) &&
				slices.ContainsFunc(all[f.index+1:], func(r events.Record) bool { return strings.HasPrefix(r.Header(events.HeaderCause), "r/") })
		})
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"a cancel is passed", verify.CheckInputs, "report_lost", false, func(h *harmed) string {
		f := h.fact(events.NameCancelRequested, "cancel-")
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"a dead letter is missing", verify.CheckInputs, "no_dead_letter", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "", h.isSettled)
		place, n := f.place(), 0
		for _, topic := range deadTopics {
			n += h.every(topic, isDeadOf(f), h.close)
		}
		require.Positive(h.t, n)
		return place
	}},
	{"a dead letter has other bytes", verify.CheckInputs, "dead_differs", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "")
		d := h.deadOf(f)
		d.Value = append(slices.Clone(d.Value), ' ')
		return f.place()
	}},
	{"a dead letter has other headers", verify.CheckInputs, "dead_differs", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "")
		d := h.deadOf(f)
		d.Headers = append([]events.Header{{Key: "new"}}, d.Headers...)
		return f.place()
	}},
	{"a dead letter names another input", verify.CheckInputs, "dead_differs", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "")
		d := h.deadOf(f)
		for i := range d.Headers {
			if d.Headers[i].Key == "__dlq.errors.offset" {
				d.Headers[i].Value = []byte("777")
			}
		}
		return f.place()
	}},
	{"a dead letter does not say where it came from", verify.CheckInputs, "dead_unreadable", false, func(h *harmed) string {
		d := h.deadOf(h.fact(events.NameInputRejected, ""))
		d.Headers = d.Headers[:len(d.Headers)-1]
		return d.place()
	}},
	{"a request that is not held expires", verify.CheckInputs, "no_held", false, func(h *harmed) string {
		f := h.fact(events.NameInputRejected, "ghost-")
		f.alter("held", "other")
		return f.place()
	}},
	{"more is passed than the topic has", verify.CheckInputs, "passed", false, func(h *harmed) string {
		f := h.fact(events.NameInputsPassed, "")
		return h.forge(f, events.NameInputsPassed, "", &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 9999}}}).place()
	}},
	{"a misplaced input is sent to the wrong home", verify.CheckInputs, "forward", false, func(h *harmed) string {
		f := h.fact(events.NameInputForwarded, "")
		f.alter("to", f.part)
		return f.place()
	}},
	{"a misplaced input never arrives at home", verify.CheckInputs, "forward_missing", false, func(h *harmed) string {
		f := h.fact(events.NameInputForwarded, "", h.isSettled)
		place := f.place()
		require.Positive(h.t, h.every(topicSubs, isCopyOf(f), h.drop))
		return place
	}},
	{"a misplaced input is passed at home", verify.CheckInputs, "lost", false, func(h *harmed) string {
		f := h.fact(events.NameInputForwarded, "")
		at := h.inputOf(f).place()
		h.nothing(f.Record)
		return at
	}},
	{"an acknowledged submission is missing", verify.CheckInputs, "acknowledged_lost", false, func(h *harmed) string {
		i := h.rng.IntN(len(h.acks))
		h.acks[i].Offset = 5000
		return h.acks[i].ID
	}},
	{"another submission is at the place of an acknowledged one", verify.CheckInputs, "acknowledged_other", false, func(h *harmed) string {
		i := h.rng.IntN(len(h.acks))
		h.acks[i].ID = "other"
		return "other"
	}},
	{"an acknowledged ID without a place is missing", verify.CheckInputs, "acknowledged_lost", false, func(h *harmed) string {
		h.acks = append(h.acks, verify.Acknowledged{ID: "nowhere", Partition: -1})
		return "nowhere"
	}},
}

// copyOf finds the copy of an input that was forwarded to its home partition.
func (h *harmed) copyOf(f found) found { return h.one(topicSubs, isCopyOf(f)) }

func isCopyOf(f found) func(found) bool {
	from := strings.TrimPrefix(f.Header(events.HeaderCause), "s/")
	return func(x found) bool { return x.Header(events.HeaderForwardedFrom) == from }
}

var effectCorruptions = []corruption{
	{"a work request is missing", verify.CheckEffects, "work_missing", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "", h.isSettledByOwner)
		place := f.place()
		h.unsend(f.Record)
		return place
	}},
	{"a work request for an undo is missing", verify.CheckEffects, "work_missing", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "", h.isSettledByOwner)
		h.unsend(f.Record)
		return string(f.Key) + "/" + f.text("step")
	}},
	{"a work request without a fact", verify.CheckEffects, "phantom_work", false, func(h *harmed) string {
		w := h.workOf(h.fact(events.NameStepStarted, "").Record)
		n := h.append(w.topic, w.part, *w.Record)
		n.Headers = slices.Clone(n.Headers)
		set(n.Record, events.HeaderID, "0/9-nobody/3")
		return n.place()
	}},
	{"a work request of another fact", verify.CheckEffects, "phantom_work", false, func(h *harmed) string {
		w := h.workOf(h.fact(events.NameStepStarted, "").Record)
		n := h.append(w.topic, w.part, *w.Record)
		n.Headers = slices.Clone(n.Headers)
		set(n.Record, events.HeaderID, h.fact(events.NameStepCompleted, "").Header(events.HeaderID))
		return n.place()
	}},
	{"a stop without a fact", verify.CheckEffects, "phantom_stop", false, func(h *harmed) string {
		w := h.workOf(h.fact(events.NameStepStarted, "").Record)
		n := h.append(w.topic, w.part, *w.Record)
		n.Headers = slices.Clone(n.Headers)
		set(n.Record, events.HeaderType, events.TypeStop)
		set(n.Record, events.HeaderID, "0/9-nobody/3/stop/pack")
		return n.place()
	}},
	{"a work request asks for something else", verify.CheckEffects, "work_differs", false, func(h *harmed) string {
		w := h.workOf(h.fact(events.NameStepStarted, "").Record)
		w.alter([]string{"input", "attempt", "step", "idempotency_key"}[h.rng.IntN(4)], 3)
		if w.text("step") == "3" || w.text("idempotency_key") == "3" {
			w.alter("step", "elsewhere")
			w.alter("idempotency_key", "other")
		}
		return w.place()
	}},
	{"a start has another input than its request", verify.CheckEffects, "work_differs", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		f.alter("input", map[string]any{"id": "forged"})
		return h.workOf(f.Record).place()
	}},
	{"a dead letter without a fact", verify.CheckEffects, "phantom_dead_letter", false, func(h *harmed) string {
		d := h.deadOf(h.fact(events.NameInputRejected, ""))
		n := h.append(d.topic, d.part, *d.Record)
		n.Headers = slices.Clone(n.Headers)
		for i := range n.Headers {
			if n.Headers[i].Key == "__dlq.errors.fact" {
				n.Headers[i].Value = []byte("0/9-nobody/3")
			}
		}
		return n.place()
	}},
	{"a forwarded copy without a fact", verify.CheckEffects, "phantom_forward", false, func(h *harmed) string {
		f := h.inputOf(h.fact(events.NameSubmitted, "ok-"))
		n := h.append(f.topic, 1-f.part, *f.Record)
		n.Headers = slices.Clone(n.Headers)
		set(n.Record, events.HeaderForwardedFrom, fmt.Sprintf("%d/%d", f.part, f.Offset))
		return n.place()
	}},
	{"a forwarded copy differs", verify.CheckEffects, "forward_differs", false, func(h *harmed) string {
		c := h.copyOf(h.fact(events.NameInputForwarded, ""))
		c.Headers = append(c.Headers, events.Header{Key: "more"})
		return c.place()
	}},
}

var ledgerCorruptions = []corruption{
	{"the call of a completed step is missing", verify.CheckLedgers, "not_called", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "", h.ended)
		h.forget(string(f.Key), f.text("step"), events.Do)
		return string(f.Key) + "/" + f.text("step")
	}},
	{"the call of an undo is missing", verify.CheckLedgers, "not_called", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "", h.ended)
		h.forget(string(f.Key), f.text("step"), events.Undo)
		return string(f.Key) + "/" + f.text("step")
	}},
	{"the call of a completed step was refused", verify.CheckLedgers, "not_called", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "ok-", h.ended)
		for i := range h.calls {
			if h.calls[i].Task == string(f.Key) && h.calls[i].Step == f.text("step") {
				h.calls[i].Outcome = "refused"
			}
		}
		return string(f.Key) + "/" + f.text("step")
	}},
	{"a call without an attempt", verify.CheckLedgers, "no_attempt", false, func(h *harmed) string {
		c := h.calls[h.rng.IntN(len(h.calls))]
		c.Identifier = "not-a-uuid"
		h.calls = append(h.calls, c)
		return c.Task
	}},
	{"a call of another namespace", verify.CheckLedgers, "no_attempt", false, func(h *harmed) string {
		c := h.calls[h.rng.IntN(len(h.calls))]
		c.Identifier = "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"
		h.calls = append(h.calls, c)
		return "" // an identifier does not name a task, so the finding names the line
	}},
	{"a do after its undo", verify.CheckLedgers, "do_after_undo", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "")
		i := slices.IndexFunc(h.calls, func(c verify.Call) bool {
			return c.Task == string(f.Key) && c.Step == f.text("step") && c.Operation == events.Do
		})
		c := h.calls[i]
		c.Outcome = "done"
		h.calls = append(h.calls, c)
		return string(f.Key) + "/" + f.text("step")
	}},
	{"an effect is left", verify.CheckLedgers, "left", false, func(h *harmed) string {
		task := h.harmless()
		for i := range h.calls {
			if h.calls[i].Task == task && h.calls[i].Step == "pack" {
				h.calls[i].Outcome = "done" // the agent reported that it had no effect
			}
		}
		return task + "/pack"
	}},
	{"an effect is left by an undo that did nothing", verify.CheckLedgers, "left", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "", func(f found) bool { return h.took(f, events.Do) == 1 && h.took(f, events.Undo) == 1 }, h.ended)
		h.calls[h.call(f, events.Undo)].Outcome = "repeated"
		return string(f.Key) + "/" + f.text("step")
	}},
	{"an effect twice", verify.CheckLedgers, "twice", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "ok-")
		h.calls = append(h.calls, h.calls[h.call(f, events.Do)])
		return string(f.Key) + "/" + f.text("step")
	}},
	{"an undo twice", verify.CheckLedgers, "twice", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "", func(f found) bool { return f.text("step") != "pack" })
		h.calls = append(h.calls, h.calls[h.call(f, events.Undo)])
		return string(f.Key) + "/" + f.text("step")
	}},
	{"undos in the wrong order", verify.CheckLedgers, "undo_order", false, func(h *harmed) string {
		task, reserve, charge := h.undoneTwice()
		h.calls[reserve], h.calls[charge] = h.calls[charge], h.calls[reserve]
		return task + "/reserve"
	}},
	{"undos in the wrong order in two ledgers", verify.CheckLedgers, "undo_order", false, func(h *harmed) string {
		task, reserve, charge := h.undoneTwice()
		early, late := h.calls[charge].Time, h.calls[reserve].Time
		h.calls[reserve].Time, h.calls[charge].Time = early, max(late, early+1) // both may have come in the same millisecond
		h.apart = true
		return task + "/reserve"
	}},
	{"a call for another task", verify.CheckLedgers, "other_task", false, func(h *harmed) string {
		i := h.rng.IntN(len(h.calls))
		task, step := h.calls[i].Task, h.calls[i].Step
		for j := range h.calls {
			if h.calls[j].Identifier == h.calls[i].Identifier && j != i {
				h.calls[j].Task = "other"
			}
		}
		h.calls[i].Task = "other"
		return task + "/" + step
	}},
}

// call finds the call of a fact's step that took effect.
func (h *harmed) call(f found, op events.Operation) int {
	i := slices.IndexFunc(h.calls, func(c verify.Call) bool {
		return c.Task == string(f.Key) && c.Step == f.text("step") && c.Operation == op && c.Outcome == "done"
	})
	require.GreaterOrEqual(h.t, i, 0)
	return i
}

// took counts the calls of a fact's step that took effect.
func (h *harmed) took(f found, op events.Operation) (n int) {
	for _, c := range h.calls {
		if c.Task == string(f.Key) && c.Step == f.text("step") && c.Operation == op && c.Outcome == "done" {
			n++
		}
	}
	return n
}

// undoneTwice picks a task of which the undos of charge and then of reserve took effect, and returns these calls.
func (h *harmed) undoneTwice() (task string, reserve, charge int) {
	f := h.fact(events.NameCompensated, "", step("charge"), h.ended, func(f found) bool {
		return slices.ContainsFunc(h.calls, func(c verify.Call) bool {
			return c.Task == string(f.Key) && c.Step == "reserve" && c.Operation == events.Undo && c.Outcome == "done"
		})
	})
	task = string(f.Key)
	return task, h.call(h.of(events.NameCompensated, task, "reserve"), events.Undo), h.call(f, events.Undo)
}

func (h *harmed) forget(task, step string, op events.Operation) {
	h.calls = slices.DeleteFunc(h.calls, func(c verify.Call) bool { return c.Task == task && c.Step == step && c.Operation == op })
}

// isSettled picks a fact whose effects are acknowledged according to a later fact. The effects of any other fact may be
// missing.
func (h *harmed) isSettled(f found) bool {
	at, err := events.PositionOf(f.Record)
	require.NoError(h.t, err)
	return slices.ContainsFunc(h.topics[topicEvents][f.part][f.index+1:], func(r events.Record) bool {
		s, err := events.ParsePosition(r.Header(events.HeaderWatermark))
		return err == nil && !s.Before(at)
	})
}

// isSettledByOwner leaves out facts whose effects a later owner acknowledged, because that owner does not send the
// requests of attempts that have timed out.
func (h *harmed) isSettledByOwner(f found) bool {
	at := positionOf(f.Record)
	return h.isSettled(f) && slices.ContainsFunc(h.topics[topicEvents][f.part][f.index+1:], func(r events.Record) bool {
		mark, err := events.ParsePosition(r.Header(events.HeaderWatermark))
		return err == nil && mark.Epoch == at.Epoch && mark.Sequence >= at.Sequence
	})
}

// ended picks a fact that the ledger must confirm: it is older than the ledger's end, and its task has ended.
func (h *harmed) ended(f found) bool {
	var end events.Instant
	for _, c := range h.calls {
		if c.Task != string(f.Key) || c.Step != f.text("step") { // such tasks may be forgotten
			end = max(end, c.Time)
		}
	}
	at, err := events.ParseInstant(f.Header(events.HeaderTime))
	require.NoError(h.t, err)
	return at < end && len(h.all(topicEvents, func(x found) bool {
		n := nameOf(*x.Record)
		return string(x.Key) == string(f.Key) && (n == events.NameTaskProcessed || n == events.NameTaskUndone)
	})) > 0
}

// A ledger that was copied while the engine ran ends before the log: newer calls are missing, unless everything is at
// rest.
func TestALedgerThatEndsBeforeTheLog(t *testing.T) {
	base := recording(t)
	h := harm(t, base, 1)
	known, end := map[string]bool{}, len(h.calls)/2
	for i, c := range h.calls {
		if step := events.DefinedStep(c.Step); !known[step] { // without a call, nothing says that the ledgers hold calls of the step
			known[step], end = true, max(end, i+1)
		}
	}
	require.Less(t, end, len(h.calls))
	h.calls = h.calls[:end]
	r := h.verify(t)
	require.Equal(t, verify.Proved, r.Verdict, "%v %+v", r.Findings, r.Checks)
	require.Positive(t, r.Counts.Ledgers.NotYet)
	r = h.verify(t, func(c *verify.Config) { c.AtRest = true })
	require.Contains(t, r.Totals, verify.Count{Check: verify.CheckLedgers, Kind: "not_called", Total: h.verify(t).Counts.Ledgers.NotYet})

	for i := range h.calls {
		h.calls[i].Time = 0
	}
	read := func(written events.Instant) *verify.Report {
		return h.verify(t, func(c *verify.Config) { c.Ledgers = h.ledgersOf(t, written) })
	}
	require.Equal(t, verify.Refuted, read(events.At(time.Now())).Verdict, "a complete ledger, by its time on disk")
	require.Equal(t, verify.Proved, read(1).Verdict)
}
