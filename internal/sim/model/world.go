package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
)

// World is one world of the model, moved by one action at a time. It is not safe for concurrent use.
type World struct {
	sp        *space
	s         *state
	violation string
	// breaks is a substring of the violations that count; all others are ignored.
	breaks string
	// noting says that the consequences of each action are added to the path.
	noting bool
	notes  []string
	path   []string
}

// New returns the world of a configuration as it begins: the group has given every partition to A, which knows it and
// is about to read its log.
func New(cfg Config) *World {
	cfg = cfg.withDefaults()
	w := &World{sp: newSpace(cfg), s: &state{times: make([]uint8, len(cfg.Clients))}, noting: true}
	for p := range cfg.Partitions {
		w.s.parts = append(w.s.parts, part{log: w.sp.root(p)})
	}
	bootNodes(w)
	for i := range cfg.Clients {
		if cfg.Clients[i].AtStart {
			w.client(i)
		}
	}
	for p := range cfg.Full {
		w.replica(int(p)).learn()
	}
	return w
}

// bootNodes starts the nodes.
func bootNodes(w *World) {
	for n := range w.sp.cfg.Nodes {
		for p := range w.sp.cfg.Full {
			x := &slot{node: n, name: w.sp.cfg.nodeName(n)[0], part: p}
			r := &result{}
			x.carryOut(w.sp, &event{kind: evStart}, r)
			w.s.nodes = append(w.s.nodes, share{slot: w.sp.internSlot(x)})
			w.s.nodes[len(w.s.nodes)-1].reset()
		}
	}
	hear(w)
}

// reset forgets everything that a node knows about a partition except its slot.
func (n *share) reset() {
	*n = share{slot: n.slot, believes: n.believes, tail: -1, reads: [2]int64{-1, -1}}
}

// Violation returns the first broken property, empty if nothing is broken.
func (w *World) Violation() string { return w.violation }

// Path returns the performed actions, with their consequences, as readable lines.
func (w *World) Path() []string { return w.path }

func (w *World) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.violation == "" && strings.Contains(text, w.breaks) {
		w.violation = text
		w.note("VIOLATION: %s", w.violation)
	}
}

func (w *World) note(format string, args ...any) {
	if w.noting {
		w.notes = append(w.notes, fmt.Sprintf(format, args...))
	}
}

func (w *World) judge(p int32) *judge {
	part := &w.s.parts[p]
	j := &judge{w: w, part: part, log: w.sp.logs[part.log]}
	j.Judge = sim.Judge{Witness: j, Objects: objects{&w.sp.cfg, w.sp, j.log}, State: j.log.state, ID: p, Partitions: w.sp.cfg.Partitions, Off: w.sp.cfg.Off, Fail: w.fail}
	return j
}

// claimsMax is more claims of one node than the budgets of a world can cause.
const claimsMax = 10

// land appends facts to a log and judges each.
func (w *World) land(p int32, records []int32) (offsets []int64) {
	for _, r := range records {
		j := w.judge(p)
		next := w.sp.extend(p, w.s.parts[p].log, r)
		l := w.sp.logs[next]
		offsets = append(offsets, j.log.end())
		if l.fault != "" {
			w.fail("%s", l.fault)
		}
		verdict := "VOID"
		if f := l.last(w.sp); f != nil {
			verdict = "accepted"
			source := w.sp.records[r].Header(events.HeaderSource)
			j.before(f, source)
			if want, ok := w.sp.expected[r]; ok && want != l.sum {
				w.fail("stale or hole: %s was decided on a different state than the one in which it is accepted", w.sp.describe(r))
			}
		}
		w.note("at %d: %s: %s", j.log.end(), w.sp.describe(r), verdict)
		w.s.parts[p].log = next
		if int64(w.s.parts[p].before) <= l.state.Partition.Inputs[events.Reports].Next {
			w.s.parts[p].before = 0 // all of them are judged
		}
	}
	return offsets
}

// put lands an input.
func (w *World) put(p int32, id int32) {
	x := &w.sp.inputs[id]
	list := &w.s.parts[p].inputs[topicOf(x.in)]
	*list = append(*list, landed{id, w.s.clock})
	w.note("%s/%d has at %d: %s", x.in, p, len(*list)-1, x.name)
}

// client makes a client act.
func (w *World) client(i int) {
	c := &w.sp.cfg.Clients[i]
	w.s.times[i]++
	if c.Kind == PauseAgent || c.Kind == ResumeAgent {
		hold(w, c.Kind == PauseAgent)
		return
	}
	x := input{in: events.Submissions, Input: sim.Input{Task: c.Task}, name: c.name()}
	switch c.Kind {
	case Submit, Conflict, Lethal:
		x.Kind = sim.InputSubmission
		body := map[string]any{"id": c.Task, "workflow": c.Workflow, "input": map[string]any{"go": false}}
		if c.NotBefore != "" {
			body["not_before"] = c.NotBefore
		}
		if c.Kind == Conflict {
			body["labels"] = map[string]any{"other": "content"}
		}
		if x.Lethal = c.Kind == Lethal; x.Lethal {
			body["input"].(map[string]any)[lethal] = true
		}
		if c.Replies {
			body["reply_to"] = replyTopic
		}
		if c.Schedule != "" {
			body["schedule"], body["schedule_began"] = c.Schedule, 1
			x.record.Headers = []events.Header{{Key: events.HeaderTime, Value: []byte(Begin.String())}}
		}
		x.record.Key = []byte(c.Task)
		x.record.Value, _ = json.Marshal(body)
		sub, err := events.ParseSubmission(x.record.Value)
		if err != nil {
			panic(err)
		}
		x.Content, _ = sub.ContentHash()
		if !w.sp.cfg.Catalog {
			v, _ := definitions().Current(c.Workflow)
			x.record.Headers = append(x.record.Headers, events.Header{Key: events.HeaderDefinition, Value: []byte(v.Hash)})
		}
	case Cancel, Retry, Pause, Resume, Terminate, Skip, Complete, Fail, Signal, Rerun:
		x.in = events.Reports
		q := c.Asks
		q.ID, q.Kind, q.Task, q.By = fmt.Sprintf("q%d", i), verbs[c.Kind], c.Task, "operator"
		if c.Kind == Signal {
			x.in, q.Signal = events.Submissions, "go"
		}
		r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/clients", Time: Begin})
		if err != nil {
			panic(err)
		}
		x.record, x.Kind, x.Request = r, sim.InputRequest, q
	case PauseLimit, ResumeLimit:
		var err error
		if x.Input, x.record, err = sim.OfLimit(fmt.Sprintf("q%d", i), c.Task, verbs[c.Kind], Begin); err != nil {
			panic(err)
		}
		x.in = events.Reports
	case Garbage:
		x.Kind = sim.InputGarbage
		x.record.Value = []byte("{")
	case Marker:
		x.Kind, x.record.Control = sim.InputMarker, true
	}
	w.put(c.Partition, w.sp.internInput(x))
}

func (c *Client) name() string {
	what := []string{"a client submits " + c.Task, "a client submits other content as " + c.Task, "an operator cancels " + c.Task,
		"an operator retries " + c.Task, "somebody sends garbage", "somebody ends a transaction", "a client submits a lethal " + c.Task,
		"an operator pauses " + c.Task, "an operator resumes " + c.Task, "an operator terminates " + c.Task, "an operator skips " + c.Task, "an operator completes " + c.Task, "an operator fails " + c.Task, "a client signals " + c.Task,
		"an operator pauses the limit " + c.Task, "an operator resumes the limit " + c.Task, "an operator reruns " + c.Task,
		"an operator pauses the agent " + c.Task, "an operator resumes the agent " + c.Task}[c.Kind]
	if c.Asks.Step != "" {
		what += "." + c.Asks.Step
	}
	if c.Partition != 0 {
		what += fmt.Sprintf(" in partition %d", c.Partition)
	}
	return what
}

// arrive delivers an effect to its destination.
func (w *World) arrive(p int32, id int32) {
	e, j := &w.sp.effects[id], w.judge(p)
	debt := int32(-1)
	if !e.unowed {
		if debt = j.debtOf(id); debt >= 0 {
			j.arrives(debt)
		}
	}
	switch {
	case e.work != nil:
		if !slices.ContainsFunc(w.s.works, func(x work) bool { return x.debt == debt }) {
			checkKeys(w, id)
			w.s.works = append(w.s.works, work{debt: debt, effect: id})
		}
	case e.permit != nil:
		x := input{in: events.Reports, record: e.record, Input: sim.OfPermit(&e.record, *e.permit), name: e.name}
		w.put(e.record.Partition, w.sp.internInput(x))
	case e.relative != nil:
		x := input{in: events.Input(e.topic), record: e.record, Input: *e.relative, name: e.name}
		w.put(e.record.Partition, w.sp.internInput(x))
	case e.kind == events.EffectForward:
		x := w.forwarded(e)
		w.put(e.record.Partition, w.sp.internInput(x))
	}
}

// forwarded is the copy of an input that was sent home.
func (w *World) forwarded(e *effect) input {
	in, p, offset, _ := e.origin.Input()
	x := w.sp.inputs[w.s.parts[p].inputs[topicOf(in)][offset].input]
	x.record, x.origin = e.record, e.origin
	if !strings.HasSuffix(x.name, "(forwarded)") {
		x.name += " (forwarded)"
	}
	return x
}

// report makes an agent report the result of an attempt.
func (w *World) report(i int, o Outcome) {
	x := &w.s.works[i]
	x.reports++
	wk := w.sp.effects[x.effect].work
	p := events.Report{Task: wk.Task, Run: wk.Run, Step: wk.Step, Operation: wk.Operation, Attempt: wk.Attempt, Ticket: wk.Ticket,
		Result: events.ResultCompleted, Instance: "agent-1", StartedAt: Begin, FinishedAt: Begin, Output: json.RawMessage(`{}`)}
	if o != Completed {
		p.Result, p.Output, p.Error = events.ResultFailed, nil, &events.Error{Class: events.ClassRetryable, Message: "it failed"}
	}
	switch o {
	case FailedNone:
		p.Effect = events.EffectNone
	case FailedForGood:
		p.Error.Class, p.Effect = events.ClassPermanent, events.EffectDoneUnknown
	case FailedInDoubt:
		p.Error.Class = events.ClassPermanent
	}
	r, err := events.EncodeReport(p, events.Subject{ID: fmt.Sprintf("%s-%s-%s-%d-%d", p.Task, p.Step, p.Operation, p.Attempt, o), Source: "/agents", Time: Begin})
	if err != nil {
		panic(err)
	}
	in := input{in: events.Reports, record: r, Input: sim.Input{Kind: sim.InputReport, Task: p.Task, Report: p}, name: fmt.Sprintf("the report of %s: %s", w.sp.effects[x.effect].name, outcomeNames[o])}
	home := wk.Home
	if x.old { // a callback comes to a node of the copy, which knows the home
		home = events.Home(p.Task, w.sp.cfg.Partitions)
	}
	w.put(home, w.sp.internInput(in))
}

var outcomeNames = [...]string{"completed", "failed", "failed without effect", "failed for good", "failed in doubt"}

// verbs are the verbs of the clients that make requests.
var verbs = map[Kind]events.Verb{
	Cancel: events.RequestCancel, Retry: events.RequestRetry, Pause: events.RequestPause, Resume: events.RequestResume, Terminate: events.RequestTerminate,
	Skip: events.RequestSkip, Complete: events.RequestComplete, Fail: events.RequestFail, Signal: events.RequestSignal,
	PauseLimit: events.RequestPause, ResumeLimit: events.RequestResume,
	Rerun: events.RequestRerun,
}
