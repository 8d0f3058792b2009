package sim

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// What parents and children say to each other in the world of the simulator: where it lands, and that it says what its fact says.

// isRelative says whether a record is of a parent or a child.
func isRelative(r *events.Record) bool {
	switch r.Header(events.HeaderType) {
	case events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease, events.TypeChildAnswer:
		return true
	case events.TypeSubmission:
		return bytes.Contains(r.Value, []byte(`"parent":`))
	}
	return false
}

// sendsRelative says whether an effect is what a parent or a child says, and not a dead letter with it.
func sendsRelative(a *supervisor.Send) bool {
	return a.Kind != events.EffectDeadLetter && isRelative(&a.Record)
}

// lands lands a record of a parent or a child.
func (c *families) lands(r *events.Record) {
	w := c.w
	x, err := RelativeOf(r)
	if err != nil {
		w.fail("a record of a parent or child cannot be read: %v", err)
		return
	}
	in, m := events.Submissions, &meta{Input: x}
	if x.Relative.Type == events.TypeChildAnswer {
		in = events.Reports
	}
	if sub, err := events.ParseSubmission(r.Value); err == nil && x.Relative.Type == "" {
		var input struct{ N any }
		_ = json.Unmarshal(sub.Input, &input)
		_, number := input.N.(float64)
		m.workflow, m.version, m.unfit, m.tooLarge = sub.Workflow, sub.Version, sub.Workflow == "dag" && !number, len(r.Value) > w.cfg.Settings.SubmissionBytes
		m.Content, _ = sub.ContentHash()
		c.landed[x.Relative.try()] = true
	}
	w.parts[r.Partition].inputs.put(in, *r, m)
}

// try names the try that a record is about.
func (x *Relative) try() string { return tryOf(x.Child, &x.Link) }

func tryOf(child string, l *events.Link) string {
	return child + " of " + l.Task + " " + l.Incarnation + " " + l.Path + " " + strconv.Itoa(l.N)
}

// says checks that a record says what its fact says, and goes to whom it is for.
func (e *effects) says(f *events.Fact, a *supervisor.Send) {
	x, err := RelativeOf(&a.Record)
	topic, home := string(events.Submissions), x.Relative.Child
	if x.Relative.Type == events.TypeChildAnswer {
		topic, home = string(events.Reports), x.Relative.Link.Task
	}
	why := ""
	switch r := &x.Relative; {
	case err != nil:
		why = err.Error()
	case a.Topic != topic || a.Record.Partition != events.Home(home, int32(len(peers(e.p)))):
		why = "it goes elsewhere"
	case r.Type == events.TypeChildAnswer:
		why = saysEnd(f, r)
	default:
		why = saysToChild(f, r, e.p.ticket(f.Task))
	}
	if why != "" {
		e.w.fail("INV8: %s, the effect of %s %s: %s", x.Relative.String(), f.Body.Name(), events.FactID(f, e.p.id), why)
	}
}

// saysEnd says why a fact does not say what an answer does, "" if it does.
func saysEnd(f *events.Fact, r *Relative) string {
	want, output, link := events.ChildEnd(""), json.RawMessage(nil), (*events.Link)(nil)
	switch b := f.Body.(type) {
	case *events.Submitted:
		want, link = events.ChildAccepted, &b.Parent.Link
	case *events.ChildRefused:
		want, link = events.ChildRejected, &b.Parent.Link
		if b.Reason == events.RejectLost {
			want = events.ChildLost
		}
	case *events.ChildAnswered:
		want, output, link = b.Answer.State, b.Answer.Output, &b.Answer.Link
	case *events.TaskProcessed:
		want, output, link = events.ChildProcessed, b.Output, b.Answers
	case *events.TaskUndone:
		want, link = events.ChildUndone, b.Answers
	case *events.TaskTerminated:
		want, link = events.ChildTerminated, b.Answers
	}
	if link == nil || r.Answer.State != want || r.Link != *link || r.Child != f.Task || !bytes.Equal(r.Answer.Output, output) {
		return "it says something else"
	}
	return ""
}

// saysToChild says why a fact does not say what a record of a parent does, "" if it does. ticket is the incarnation of the task of the fact, as far as
// that is known.
func saysToChild(f *events.Fact, r *Relative, ticket string) string {
	kind, own := "", true
	switch b := f.Body.(type) {
	case *events.StepStarted:
		own = b.Child != nil && r.Child == b.Child.Task && r.Link.Path == b.Step && r.Link.N == b.Attempt && r.Link.Operation == events.Do
	case *events.CompensationStarted:
		kind, own = events.TypeChildUndo, b.Child != nil && r.Child == b.Child.Task && r.Link.Path == b.Step && r.Link.N == b.Attempt && r.Link.Operation == events.Undo
	case *events.ChildAsked:
		kind, own = events.TypeChildAsk, r.Child == b.Child && r.Link == b.Link && r.Cancel == b.Cancel
	case *events.ChildrenReleased:
		kind, own = events.TypeChildRelease, slices.Contains(b.Children, events.ChildRelease{Child: r.Child, Link: r.Link})
	case *events.ChildReturned:
		kind, own = events.TypeChildRelease, r.Child == b.Child && r.Link == b.Link
	default:
		own = false
	}
	_, returned := f.Body.(*events.ChildReturned)
	switch {
	case r.Type != kind || !own || r.Link.Task != f.Task:
		return "it says something else"
	case ticket != "" && ticket != r.Link.Incarnation && !returned && f.Position().String() > ticket:
		return "it names another incarnation of the parent"
	}
	return ""
}

// relativeTo returns what the effect of a fact about a parent or a child waits for. Of several, it is the first.
func relativeTo(f *events.Fact, partitions int32) string { return relativesTo(f, partitions)[0] }

func relativesTo(f *events.Fact, partitions int32) (list []string) {
	to := func(in events.Input, id string) {
		list = append(list, string(in)+"/"+strconv.Itoa(int(events.Home(id, partitions))))
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		to(events.Submissions, b.Child.Task)
	case *events.CompensationStarted:
		to(events.Submissions, b.Child.Task)
	case *events.ChildAsked:
		to(events.Submissions, b.Child)
	case *events.ChildReturned:
		to(events.Submissions, b.Child)
	case *events.ChildrenReleased:
		for _, c := range b.Children {
			to(events.Submissions, c.Child)
		}
	case *events.Submitted:
		to(events.Reports, b.Parent.Link.Task)
	case *events.ChildRefused:
		to(events.Reports, b.Parent.Link.Task)
	case *events.ChildAnswered:
		to(events.Reports, b.Answer.Link.Task)
	case *events.TaskProcessed:
		to(events.Reports, b.Answers.Task)
	case *events.TaskUndone:
		to(events.Reports, b.Answers.Task)
	case *events.TaskTerminated:
		to(events.Reports, b.Answers.Task)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// asksAgain returns when the running attempt of a step asks its child again, or asks it to turn back; false if no child does it.
func asksAgain(s *events.Step) (at events.Instant, child bool) {
	switch {
	case s.DoneByChild(events.Undo) != "":
	case s.DoneByChild(events.Do) == "":
		return 0, false
	case s.CompleteBy != 0 && s.ByChild.Cancelled == "":
		return min(s.CompleteBy, s.ByChild.AskedAt.Add(events.RepeatAfter)), true
	}
	return s.ByChild.AskedAt.Add(events.RepeatAfter), true
}

// childDefinition is what a workflow says about a child.
type childDefinition struct {
	Workflow, ID, Deadline string
	Version, Priority      int
	Detach                 bool
}

func childIn(s *scheduler.Step) (c childDefinition) {
	_ = json.Unmarshal(s.Child, &c) // it was compiled
	return c
}

// inputID is the ID that a parent gives its child.
func inputID(input json.RawMessage) string {
	var in struct{ ID string }
	_ = json.Unmarshal(input, &in)
	return in.ID
}
