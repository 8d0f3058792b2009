package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// copyLogs are the topics that a copy reads and writes: namespacecopy.Logs.
type copyLogs struct {
	w        *World
	from, to *space
	old      []source
	// parts are the partitions of the copy, and works the requests in the topics of agents, by the numbers of their effects.
	parts []part
	works []int32
	// definitions are those of the copy, and defined counts their records.
	definitions *scheduler.Catalog
	defined     int64
	// wrote counts the partitions whose carry has ended.
	wrote int32
	// moving are the inputs on their way to their new homes, and moved counts those that arrived.
	moving []landed
	moved  int
	// sent names what was sent: the identifiers of records, the attempts that were requested or whose outcome was moved, the origins of forwards, the facts
	// of dead letters, the held requests.
	sent map[string]bool
}

func newCopyLogs(w *World, old []source) *copyLogs {
	l := &copyLogs{w: w, from: w.sp, to: w.sp.copy(), old: old, definitions: scheduler.NewCatalog(nil), sent: map[string]bool{}}
	facts, cancelled, key := inherited(w.sp, old)
	for p := range w.sp.cfg.Copy {
		l.parts = append(l.parts, part{log: l.to.copyRoot(p, facts, cancelled, key)})
	}
	return l
}

// copyRoot is the log with which a partition of a copy begins: it is empty.
func (s *space) copyRoot(part int32, facts []*events.Fact, cancelled []string, key string) int32 {
	key = fmt.Sprint(part, " ", key)
	if id, ok := s.roots[key]; ok {
		return id
	}
	l := &logNode{state: events.NewState(part, nil), inherited: facts, cancelled: cancelled}
	l.state.SetLevel(newerLevel)
	l.state.SetLax(s.lax())
	s.logs = append(s.logs, l)
	s.roots[key] = int32(len(s.logs) - 1)
	return s.roots[key]
}

// EnsureWork implements namespacecopy.Logs.
func (l *copyLogs) EnsureWork(context.Context, string) error { return nil }

// Facts implements namespacecopy.Logs.
func (l *copyLogs) Facts(_ context.Context, partition int32, from, to int64, use func(events.Record) error) error {
	for _, r := range l.from.recordsAt(l.old[partition].log.records[from:to], from) {
		if err := use(r); err != nil {
			return err
		}
	}
	return nil
}

// Unjudged implements namespacecopy.Logs.
func (l *copyLogs) Unjudged(_ context.Context, in events.Input, partition int32, from int64, use func([]events.Record) error) error {
	list := l.w.s.parts[partition].inputs[topicOf(in)]
	for o := from; o < int64(len(list)); o++ {
		x := &l.from.inputs[list[o].input]
		if !x.record.Control {
			l.moving = append(l.moving, list[o])
			if r := &x.Report; x.Kind == sim.InputReport && r.Result != events.ResultProgress {
				l.sent[sim.Attempt{Task: x.Task, Step: r.Step, Op: r.Operation, N: r.Attempt}.String()] = true
			}
		}
		if err := use(l.from.inputRecords(partition, in, []int32{list[o].input}, o)); err != nil {
			return err
		}
	}
	return nil
}

// Input implements namespacecopy.Logs.
func (l *copyLogs) Input(_ context.Context, in events.Input, partition int32, offset int64) (events.Record, error) {
	p := &l.w.s.parts[partition]
	if offset < p.start[topicOf(in)] {
		return events.Record{}, supervisor.ErrPosition
	}
	return l.from.inputRecords(partition, in, []int32{p.inputs[topicOf(in)][offset].input}, offset)[0], nil
}

// Append implements namespacecopy.Logs. After each record it checks that nodes refuse what is not complete.
func (l *copyLogs) Append(_ context.Context, records ...events.Record) (offsets []int64, err error) {
	for i := range records {
		offsets = append(offsets, l.append(&records[i]))
		if _, exists := l.definitions.Namespace(); exists && l.wrote < l.to.cfg.Copy {
			l.w.fail("the copy exists, and is not complete")
		}
	}
	return offsets, nil
}

func (l *copyLogs) append(r *events.Record) int64 {
	topic, _ := strings.CutPrefix(r.Topic, "model.")
	l.sent[topic+" "+r.Header(events.HeaderID)] = true
	switch {
	case topic == "definitions":
		x := *r
		x.Offset = l.defined
		if err := l.definitions.Apply(&x); err != nil {
			l.w.fail("a definition of the copy cannot be read: %v", err)
		}
		l.defined++
		return x.Offset
	case topic == "events":
		return l.fact(r)
	case slices.Contains(topics[:], events.Input(topic)):
		l.input(events.Input(topic), r)
	case strings.HasPrefix(topic, "work."):
		l.work(topic, r)
	case strings.HasPrefix(topic, kafkaDead):
		l.sent[events.EffectDeadLetter+" "+r.Header(supervisor.DeadFact)] = true
	}
	return 0
}

// kafkaDead is the prefix of the topics of dead letters.
const kafkaDead = "dlq."

// fact lands a fact of the copy's log.
func (l *copyLogs) fact(r *events.Record) int64 {
	p := &l.parts[r.Partition]
	at := l.to.logs[p.log].end()
	rec := l.to.internRecords([]events.Record{*r})[0]
	p.log = l.to.extend(r.Partition, p.log, rec)
	x := l.to.logs[p.log]
	switch f := x.last(l.to); {
	case x.fault != "":
		l.w.fail("%s", x.fault)
	case f == nil:
		l.w.fail("a fact of the copy is void: %s", l.to.describe(rec))
	default:
		if f.Body.Name() == events.NameCarryEnded {
			l.wrote++
		}
		l.w.note("the copy has at %d/%d: %s", r.Partition, at, l.to.describe(rec))
	}
	return at
}

// input lands an input: one that nobody has judged, a held request, or what is owed to another partition.
func (l *copyLogs) input(in events.Input, r *events.Record) {
	x, clock := input{in: in}, l.w.s.clock
	var m events.PermitMessage
	switch origin := sim.OriginOf(r, in); {
	case len(l.moving) > 0:
		x, clock = l.from.inputs[l.moving[0].input], l.moving[0].clock
		if l.moving, l.moved = l.moving[1:], l.moved+1; x.origin != "" {
			x.origin = inOldNamespace
		}
	case origin != "":
		_, p, offset, _ := origin.Input()
		x = l.from.inputs[l.w.s.parts[p].inputs[topicOf(in)][offset].input]
		x.origin = inOldNamespace
		l.sent[events.EffectForward+" "+string(origin)] = true
	case l.held(r, &x):
	case r.Header(events.HeaderType) == events.TypeTaskEnd: // nobody reads it, because the world has no schedules
		return
	case json.Unmarshal(r.Value, &m) == nil && m.Limit != "":
		x.Input = sim.OfPermit(r, m)
		x.name = x.Permit.String()
	default:
		of, err := sim.RelativeOf(r)
		if err != nil {
			l.w.fail("the copier sends what nobody can read: %v", err)
			return
		}
		x.Input, x.name = of, of.Relative.String()
	}
	x.record = *r
	if x.Task != "" && x.Kind != sim.InputGarbage && events.Home(x.Task, l.to.cfg.Copy) != r.Partition {
		l.w.fail("the copier sends %s to partition %d, and its home is %d", x.name, r.Partition, events.Home(x.Task, l.to.cfg.Copy))
	}
	list := &l.parts[r.Partition].inputs[topicOf(in)]
	*list = append(*list, landed{l.to.internInput(x), clock})
	l.w.note("the copy has in %s/%d at %d: %s", in, r.Partition, len(*list)-1, x.name)
}

// inOldNamespace is where a forwarded input was found that was copied.
const inOldNamespace events.Cause = "in the old namespace"

// held finds the held request that is sent again.
func (l *copyLogs) held(r *events.Record, x *input) bool {
	for p, y := range l.old {
		for _, h := range opened(int32(p), y.store).Held() {
			if h.Request.ID == r.Header(events.HeaderID) {
				in, p, o, _ := h.Cause.Input()
				*x = l.from.inputs[l.w.s.parts[p].inputs[topicOf(in)][o].input]
				x.in, x.origin = events.Reports, ""
				l.sent["held "+h.Request.ID] = true
				return true
			}
		}
	}
	return false
}

// work gives an agent the request for an attempt.
func (l *copyLogs) work(topic string, r *events.Record) {
	id := l.to.internEffect(0, supervisor.Send{ID: 1, Kind: events.EffectWork, Topic: topic, Record: *r})
	e := &l.to.effects[id]
	x := e.work
	t, _ := l.to.logs[l.parts[x.Home].log].state.Task(x.Task)
	if t == nil || !t.Running(x.Step, x.Operation, x.Attempt) || t.Incarnation != x.Ticket {
		l.w.fail("the copier asks for %s, which does not run in the partition %d that the request names", e.name, x.Home)
		return
	}
	if l.sent[e.name] {
		l.w.fail("the copier asks for %s a second time, or although its outcome waits to be judged", e.name)
	}
	l.sent[e.name] = true
	l.works = append(l.works, id)
	l.w.note("the copier asks for %s", e.name)
}
