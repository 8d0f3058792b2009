package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// World is one world of the model, moved by one action at a time. It is not safe for concurrent use.
type World struct {
	sp        *space
	s         *state
	violation string
	// breaks is a part of the violations that count; all others are passed over.
	breaks string
	// noting says that what an action brings about is to be told.
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
	for n := range cfg.Nodes {
		for p := range cfg.Full {
			x := &slot{node: n, part: p}
			r := &result{}
			x.carryOut(w.sp, &event{kind: evStart}, r)
			w.s.nodes = append(w.s.nodes, share{slot: w.sp.internSlot(x)})
			w.s.nodes[len(w.s.nodes)-1].reset()
		}
	}
	for i := range cfg.Clients {
		if cfg.Clients[i].AtStart {
			w.client(i)
		}
	}
	for p := range cfg.Full {
		w.learn(int(p))
	}
	return w
}

// reset forgets what a node knows of a partition but its slot.
func (n *share) reset() {
	*n = share{slot: n.slot, told: n.told, tail: -1, reads: [2]int64{-1, -1}}
}

// Violation is the first property that is broken, empty if none is.
func (w *World) Violation() string { return w.violation }

// Path is the actions that were done, with what they brought about, as readable lines.
func (w *World) Path() []string { return w.path }

// Fingerprint identifies the world: two worlds of one New that have the same go on alike.
func (w *World) Fingerprint() string { return string(w.s.encode(nil)) }

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

func (w *World) part(n int) int32 { return int32(n) % w.sp.cfg.Full }

func (w *World) judge(p int32) *judge {
	part := &w.s.parts[p]
	return &judge{w: w, id: p, part: part, log: w.sp.logs[part.log]}
}

// label names a node, with the partition where there are several.
func (w *World) label(n int) string {
	name := nodeName(n / int(w.sp.cfg.Full))
	if w.sp.cfg.Full > 1 {
		name += fmt.Sprintf("/%d", w.part(n))
	}
	return name
}

// tell has the owner of a share meet an event, and does what it says.
func (w *World) tell(n int, e *event) {
	e.clock = w.s.clock
	r := w.sp.tell(w.s.nodes[n].slot, e)
	w.s.nodes[n].slot = r.slot
	for i := range r.outs {
		w.carry(n, &r.outs[i])
	}
	w.follow(n)
}

// follow has what takes no time in this configuration happen at once.
func (w *World) follow(n int) {
	x := &w.s.nodes[n]
	if w.violation != "" {
		return
	}
	if !w.sp.cfg.Replays && x.replayTo > 0 {
		w.replay(n)
	}
	for i := range x.sends {
		if !w.sp.cfg.Alerts && w.sp.effects[x.sends[i].effect].kind == events.EffectAlert {
			w.sendLands(n, i)
			w.sendAcked(n, i)
			return // which came back here for the others
		}
	}
}

func (w *World) replay(n int) {
	x := &w.s.nodes[n]
	e := event{kind: evReplayed, from: x.replayFrom, records: w.log(w.part(n)).records[x.replayFrom:x.replayTo]}
	x.replayFrom, x.replayTo = 0, 0
	w.tell(n, &e)
}

func (w *World) log(p int32) *logNode { return w.sp.logs[w.s.parts[p].log] }

// carry does what an owner says.
func (w *World) carry(n int, out *output) {
	x := &w.s.nodes[n]
	switch out.kind {
	case outRelease:
		w.release(n)
	case outLoad:
		x.load, x.tail = true, out.from
	case outClaim:
		x.flights = []flight{{records: out.records, claim: true}}
		w.note("%s sends %s", w.label(n), w.sp.describeAll(out.records))
		if w.sp.slots[x.slot].claims > claimsMax {
			w.fail("livelock: %s claims again and again", w.label(n))
		}
	case outAppend:
		x.flights = append(x.flights, flight{records: out.records})
		w.note("%s decides %s (%d in flight)", w.label(n), w.sp.describeAll(out.records), len(x.flights))
	case outCommit:
		w.committed(n, out)
	case outReadInputs:
		x.reads = [2]int64{out.from, out.to}
		w.note("%s owns epoch %s and reads submissions from %d, reports from %d", w.label(n), claimName(w.sp.slots[x.slot].owner.Epoch().ID), out.from, out.to)
	case outReadFacts:
		if x.replayFrom, x.replayTo = out.from, out.to; out.to == 0 {
			w.fail("%s reads nothing again", w.label(n))
		}
	case outFetch:
		x.fetches = append(x.fetches, fetch{uint8(topicOf(out.in)), out.from})
	case outSend:
		w.judge(w.part(n)).leaves(out.effect, w.sp.slots[x.slot].owner.Epoch())
		x.sends = append(x.sends, send{effect: out.effect})
		w.note("%s is about to send %s", w.label(n), w.sp.effects[out.effect].name)
	case outAskEnds:
		x.ends = question{stage: 1}
		w.note("%s asks for the end offsets", w.label(n))
	case outAskCatalog:
		x.catalog = true
	case outStop:
		w.fail("%s stops: %s", w.label(n), out.err)
	}
}

// claimsMax is more claims of one node than the budgets of a world give reason for.
const claimsMax = 10

// release ends a generation: nobody waits for its answers any more, and what is on its way may land all the same.
func (w *World) release(n int) {
	x, p := &w.s.nodes[n], &w.s.parts[w.part(n)]
	for _, f := range x.flights {
		if !f.landed() && !f.lost {
			p.late = append(p.late, flight{records: f.records[len(f.offsets):]})
		}
	}
	for _, s := range x.sends {
		if !s.landed {
			p.lateEffects = append(p.lateEffects, s.effect)
		}
	}
	x.reset()
}

// committed checks a commit against the judge's fold at the same offset (INV2, INV3), and that every live task has
// something that moves it (INV10).
func (w *World) committed(n int, out *output) {
	d, l := out.delta, w.log(w.part(n))
	switch {
	case out.err != "":
		w.fail("INV3: %s: %s", w.label(n), out.err)
	case d.Next > l.end():
		w.fail("INV3: %s commits up to %d, the log ends at %d", w.label(n), d.Next, l.end())
	case d.Sum != l.sums[d.Next-1]:
		w.fail("INV2: a store differs from the fold at its offset: %s at %d", w.label(n), d.Next)
	}
	for _, t := range d.Tasks {
		k := t.Keys
		if t.Encoding != nil && !k.State.Ended() && k.State != events.Parked && k.Due == 0 && len(k.Ready) == 0 && !k.Unplanned {
			w.fail("INV10: %s commits task %s, %s, with nothing that moves it", w.label(n), t.ID, k.State)
		}
	}
	w.note("%s commits up to %d", w.label(n), d.Next)
}

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
		fate := "VOID"
		if f := l.last(w.sp); f != nil {
			fate = "accepted"
			source := w.sp.records[r].Header(events.HeaderSource)
			j.before(f, source)
			if want, ok := w.sp.expected[r]; ok && want != l.sum {
				w.fail("stale or hole: %s was decided on another state than the one in which it is accepted", w.sp.describe(r))
			}
		}
		w.note("at %d: %s: %s", j.log.end(), w.sp.describe(r), fate)
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

// client has a client act.
func (w *World) client(i int) {
	c := &w.sp.cfg.Clients[i]
	w.s.times[i]++
	x := input{in: events.Submissions, kind: c.Kind, task: c.Task, name: c.name()}
	switch c.Kind {
	case Submit, Conflict:
		body := map[string]any{"id": c.Task, "workflow": c.Workflow, "input": map[string]any{"go": false}}
		if c.Kind == Conflict {
			body["labels"] = map[string]any{"other": "content"}
		}
		x.record.Key = []byte(c.Task)
		x.record.Value, _ = json.Marshal(body)
		sub, err := events.ParseSubmission(x.record.Value)
		if err != nil {
			panic(err)
		}
		x.content, _ = sub.ContentHash()
		if !w.sp.cfg.Catalog {
			x.record.Headers = []events.Header{{Key: events.HeaderDefinition, Value: []byte(compiled()[c.Workflow].version.Hash)}}
		}
	case Cancel, Retry:
		x.in = events.Reports
		q := events.Request{ID: fmt.Sprintf("q%d", i), Kind: events.RequestCancel, Task: c.Task, By: "operator"}
		if c.Kind == Retry {
			q.Kind = events.RequestRetry
		}
		r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/clients", Time: Begin})
		if err != nil {
			panic(err)
		}
		x.record, x.request = r, &q
	case Garbage:
		x.record.Value = []byte("{")
	case Marker:
		x.record.Control = true
	}
	w.put(c.Partition, w.sp.internInput(x))
}

func (c *Client) name() string {
	what := []string{"a client submits " + c.Task, "a client submits other content as " + c.Task, "an operator cancels " + c.Task,
		"an operator retries " + c.Task, "somebody sends garbage", "somebody ends a transaction"}[c.Kind]
	if c.Partition != 0 {
		what += fmt.Sprintf(" in partition %d", c.Partition)
	}
	return what
}

// arrive brings an effect to whom it is for.
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
			w.s.works = append(w.s.works, work{debt: debt, effect: id})
		}
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

// report has an agent report a result of an attempt.
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
		p.Error.Class = events.ClassPermanent
	}
	r, err := events.EncodeReport(p, events.Subject{ID: fmt.Sprintf("%s-%s-%s-%d-%d", p.Task, p.Step, p.Operation, p.Attempt, o), Source: "/agents", Time: Begin})
	if err != nil {
		panic(err)
	}
	name := attemptName(p.Task, p.Step, p.Operation, p.Attempt)
	in := input{in: events.Reports, record: r, report: &p, task: p.Task, kind: Submit, name: fmt.Sprintf("the report of %s: %s", name, outcomeNames[o])}
	w.put(wk.Home, w.sp.internInput(in))
}

var outcomeNames = [...]string{"completed", "failed", "failed without effect", "failed for good"}
