package sim

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// copyLogs are the topics that a copy reads and writes: namespacecopy.Logs.
type copyLogs struct {
	w   *World
	old []*partition
	// copiers write the logs of the new partitions.
	copiers []*producer
	// moving are the inputs that are on their way to their new homes.
	moving []*meta
	// sent are the identifiers of the records that were sent, by topic, and asked the attempts that were requested or whose reports were moved.
	sent  map[string]bool
	asked map[Attempt]bool
}

func newCopyLogs(w *World, old []*partition) *copyLogs {
	l := &copyLogs{w: w, old: old, sent: map[string]bool{}, asked: map[Attempt]bool{}}
	for _, p := range w.parts {
		l.copiers = append(l.copiers, copier(p))
		p.writer = l.copiers[p.id]
	}
	return l
}

// EnsureWork implements namespacecopy.Logs.
func (l *copyLogs) EnsureWork(context.Context, string) error { return nil }

// Facts implements namespacecopy.Logs.
func (l *copyLogs) Facts(_ context.Context, partition int32, from, to int64, use func(events.Record) error) error {
	log := &l.old[partition].log
	if from < log.start {
		l.w.fail("a copy needs the facts of partition %d from %d on, and the log is cut at %d", partition, from, log.start)
	}
	for o := from; o < to; o++ {
		if err := use(log.records[o]); err != nil {
			return err
		}
	}
	return nil
}

// Unjudged implements namespacecopy.Logs.
func (l *copyLogs) Unjudged(_ context.Context, in events.Input, partition int32, from int64, use func([]events.Record) error) error {
	t := l.old[partition].inputs.of(in)
	for o := from; o < t.end(); o++ {
		if t.aborted[o] {
			continue
		}
		if m := *t.meta[o]; !t.records[o].Control {
			if m.origin != "" {
				m.origin = inOldNamespace
			}
			if m.Kind == InputGarbage && t.records[o].Header(events.HeaderForwardedFrom) != "" {
				m = *strays(&t.records[o])
			}
			l.moving = append(l.moving, &m)
			if r := &m.Report; m.Kind == InputReport && r.Result != events.ResultProgress {
				l.asked[Attempt{m.Task, r.Step, r.Operation, r.Attempt}] = true
			}
		}
		if err := use([]events.Record{t.records[o]}); err != nil {
			return err
		}
	}
	return nil
}

// inOldNamespace is where a forwarded input was found that was copied: its offset means another record now.
const inOldNamespace events.Cause = "in the old namespace"

// strays returns the knowledge about a submission that was in a wrong partition although it says that it was forwarded: a copy brings it home.
func strays(r *events.Record) *meta {
	m := &meta{Input: Input{Kind: InputSubmission}, origin: inOldNamespace}
	if s, err := events.ParseSubmission(r.Value); err == nil {
		m.Task, m.workflow = s.ID, s.Workflow
		m.Content, _ = s.ContentHash()
	}
	return m
}

// Input implements namespacecopy.Logs.
func (l *copyLogs) Input(_ context.Context, in events.Input, partition int32, offset int64) (events.Record, error) {
	t := l.old[partition].inputs.of(in)
	if offset < t.trimmed {
		return events.Record{}, supervisor.ErrPosition
	}
	return t.records[offset], nil
}

// Append implements namespacecopy.Logs.
func (l *copyLogs) Append(_ context.Context, records ...events.Record) (offsets []int64, err error) {
	for i := range records {
		r := records[i]
		at := int64(0)
		topic, ours := strings.CutPrefix(r.Topic, "sim.")
		l.sent[topic+" "+r.Header(events.HeaderID)] = true
		switch in := events.Input(topic); {
		case ours && topic == "events":
			p := l.w.parts[r.Partition]
			at = p.log.end()
			l.w.append(l.copiers[r.Partition], []events.Record{r})
		case slices.Contains(bothInputs[:], in):
			l.input(in, &r)
		case strings.HasPrefix(topic, "work."):
			l.work(&r)
		case strings.HasPrefix(topic, "dlq."):
			n, _ := strconv.Atoi(r.Header(supervisor.DeadPartition))
			q := &l.old[n].inputs
			q.dead = append(q.dead, deadLetter{events.Input(strings.TrimPrefix(topic, "dlq.sim.")), r})
		case ours && topic == "alerts":
		default:
			l.reply(topic, r)
		}
		offsets = append(offsets, at)
	}
	return offsets, nil
}

// input lands an input: one that nobody has judged, a held request, or what is owed to another partition.
func (l *copyLogs) input(in events.Input, r *events.Record) {
	w := l.w
	if len(l.moving) > 0 {
		m := l.moving[0]
		l.moving = l.moving[1:]
		w.parts[r.Partition].inputs.put(in, *r, m)
		return
	}
	if cause := OriginOf(r, in); cause != "" {
		_, part, _, _ := cause.Input()
		m := l.old[part].inputs.forwarded(r, in)
		if old := l.old[events.Home(m.Task, int32(len(l.old)))]; w.violation == "" {
			old.inputs.put(in, *r, m) // where its accounts are looked for
		}
		m.origin = inOldNamespace
		w.parts[r.Partition].inputs.put(in, *r, m)
		return
	}
	if m := l.held(r); m != nil {
		w.parts[r.Partition].inputs.put(in, *r, m)
		return
	}
	if isRelative(r) {
		w.families.lands(r)
		return
	}
	switch r.Header(events.HeaderType) {
	case events.TypePermitAsk, events.TypePermitGrant, events.TypePermitRelease:
		permitLands(w, r)
	case events.TypeSubmission:
		w.schedules.startLands(r)
	case events.TypeTaskEnd:
		w.schedules.endLands(r)
	default:
		w.schedules.cancelLands(r)
	}
}

// held returns the knowledge about a held request, nil if the record is another one.
func (l *copyLogs) held(r *events.Record) *meta {
	for _, p := range l.old {
		for _, h := range p.state.HeldFor(string(r.Key)) {
			if in, _, o, ok := h.Cause.Input(); ok && h.Request.ID == r.Header(events.HeaderID) {
				m := *p.inputs.of(in).meta[o]
				m.origin = ""
				return &m
			}
		}
	}
	return nil
}

func (l *copyLogs) work(r *events.Record) {
	work, _, err := events.DecodeWork(r)
	if err != nil || work.Home != events.Home(work.Task, l.w.opt.Partitions) {
		l.w.fail("a copy asks for work with the home %d: %v", work.Home, err)
		return
	}
	id := Attempt{work.Task, work.Step, work.Operation, work.Attempt}
	l.asked[id] = true
	p := l.w.parts[work.Home]
	if t, _ := p.state.Task(work.Task); t == nil || !t.Running(work.Step, work.Operation, work.Attempt) || t.Incarnation != work.Ticket {
		l.w.fail("a copy asks for %s, which does not run", id)
		return
	}
	p.effects.goes(&supervisor.Send{Kind: events.EffectWork, Record: *r})
	l.w.agents.receive(*r)
}

func (l *copyLogs) reply(topic string, r events.Record) {
	for _, p := range l.old {
		if _, owed := p.answers.owed[r.Header(events.HeaderID)]; owed {
			p.answers.arrives(supervisor.RepliesPrefix+topic, r)
			return
		}
	}
	l.w.fail("a copy sends %q to %q, which no fact owes", r.Header(events.HeaderID), topic)
}

// complete checks that whatever the old partitions owed was sent, and that every input that they had judged has its outcome.
func (l *copyLogs) complete() {
	for _, p := range l.old {
		for _, d := range p.effects.owed {
			if l.w.violation != "" {
				return
			}
			if !p.effects.arrived[d.key] && StillOwed(p.state, d.fact, d.to) && !l.sends(p, &d) {
				l.w.fail("partition %d of the old namespace owes %s, and the copy does not send it", p.id, d.key)
			}
		}
		p.inputs.accounted()
		for _, x := range p.inputs.dead {
			if x.in == events.Submissions {
				l.w.schedules.refused[string(x.record.Key)] = true
			}
		}
	}
}

// sends says whether an effect that was owed was sent, as far as nothing else shows that. (The task, the limit or the schedule shows the rest.)
func (l *copyLogs) sends(p *partition, d *debt) bool {
	id := events.FactID(d.fact, p.id)
	_, kind, _ := strings.Cut(d.key, " ")
	switch kind {
	case events.EffectAlert:
		return l.sent["alerts "+id]
	case events.EffectReply:
		return l.sent[strings.TrimPrefix(d.to, supervisor.RepliesPrefix)+" "+id]
	case events.EffectWork:
		return l.asked[AttemptOf(d.fact.Task, d.fact.Body)]
	}
	return true
}
