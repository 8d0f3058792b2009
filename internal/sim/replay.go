package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// hashOf returns the hash of one entity by FORMAT.md, independently of the engine's code.
func hashOf(kind events.Kind, id string, encoding []byte) events.Hash {
	text := append([]byte(string(kind)+"\x00"+id+"\x00"), encoding...)
	sum := sha256.Sum256(text)
	return events.Hash{Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:16])}
}

// sumsUp adds up the hashes of all entities, and compares the sum with the one that the fold maintains by additions and
// subtractions.
func (p *partition) sumsUp(kept events.Hash) {
	if sum, err := wholeSum(p.state); err != nil || sum != kept {
		p.w.fail("INV2: the state of partition %d at %d adds up to %s, the kept sum is %s: %v", p.id, p.state.Next, sum, kept, err)
	}
}

func wholeSum(s *events.State) (sum events.Hash, err error) {
	add := func(kind events.Kind, id string, v any) {
		b, e := events.Marshal(v)
		if e != nil {
			err = e
		}
		sum = sum.Add(hashOf(kind, id, b))
	}
	add(events.KindPartition, "", &s.Partition)
	s.Loaded(func(t *events.Task) bool {
		taskRows(t, add)
		return true
	})
	for _, h := range s.Held() {
		add(events.KindHeld, h.Request.Task+"\x00"+h.Request.ID, h)
	}
	for l := range s.Limits.All() {
		add(events.KindLimit, l.Name, l)
		for x := range l.Permits() {
			add(events.KindPermit, l.Name+"\x00"+strings.Join([]string{x.Link.Task, x.Link.Incarnation, strconv.Itoa(x.Link.Run), strconv.Itoa(x.Link.N), string(x.Link.Operation), x.Link.Path}, "\x00"), x)
		}
	}
	for _, x := range s.Schedules {
		add(events.KindSchedule, x.Name, x)
	}
	for _, w := range compiled() {
		if d := s.Definition(w.Version.Hash); d != nil {
			add(events.KindDefinition, d.Hash, d)
		}
	}
	return sum, err
}

// Values and steps longer than largeBytes, and steps after the first headSteps, are rows besides the head.
const (
	largeBytes = 1024
	headSteps  = 8
)

func large(v any) bool {
	b, err := events.Marshal(v)
	return err == nil && len(b) > largeBytes
}

// taskRows calls add with the rows of a task by FORMAT.md, independently of the engine's code.
func taskRows(t *events.Task, add func(kind events.Kind, id string, v any)) {
	head := *t
	head.Steps, head.Held, head.Kept, head.Requests = nil, nil, nil, nil
	var rows events.TaskRows
	if rows.Input = len(t.Input) > 0 && large(t.Input); rows.Input {
		add(events.KindInput, t.ID, t.Input)
		head.Input = nil
	}
	if rows.Output = len(t.Output) > 0 && large(t.Output); rows.Output {
		add(events.KindOutput, t.ID, t.Output)
		head.Output = nil
	}
	for i, s := range t.Steps {
		if i < headSteps && !large(s) {
			head.Steps = append(head.Steps, s)
			continue
		}
		add(events.KindStep, t.ID+"\x00"+s.Path, struct {
			Ordinal int          `json:"ordinal"`
			Step    *events.Step `json:"step"`
		}{i + 1, s})
		rows.Steps++
	}
	for i := range t.Held {
		add(events.KindRequest, t.ID+"\x00"+t.Held[i].ID, map[string]any{"held": t.Held[i]})
	}
	kept := map[string]*events.KeptSignal{}
	for i := range t.Kept {
		kept[t.Kept[i].Request] = &t.Kept[i]
	}
	for _, q := range t.Requests {
		add(events.KindRequest, t.ID+"\x00"+q.ID, struct {
			Verb    events.Verb        `json:"verb,omitempty"`
			Fact    events.Position    `json:"fact,omitzero"`
			Refused string             `json:"refused,omitempty"`
			Kept    *events.KeptSignal `json:"kept,omitempty"`
		}{q.Verb, q.Fact, q.Refused, kept[q.ID]})
	}
	rows.Requests = len(t.Held) + len(t.Requests)
	if rows != (events.TaskRows{}) {
		head.Rows = &rows
	}
	add(events.KindTask, t.ID, &head)
}

// replays folds the log from nothing, once in memory and once with a store, flushed, forgotten and read again at random
// records, and checks that the state is the same (INV2: the replay property).
func (p *partition) replays() {
	fresh := events.NewState(p.id, nil)
	fresh.SetLax(p.w.lax())
	fresh.SetLevel(newerBuild)
	store := NewStore()
	through := events.NewState(p.id, store.Load)
	through.SetLax(p.w.lax())
	through.SetLevel(newerBuild)
	often := 1 + p.w.aside.IntN(4)
	for i := range p.log.records {
		r := &p.log.records[i]
		if !p.fold(fresh, r) || !p.fold(through, r) {
			return
		}
		if p.w.aside.IntN(often) > 0 || through.Partition.Loading() && through.Partition.HalfCarried() { // an owner does not commit that either
			continue
		}
		d, err := through.Flush(nil)
		if err == nil {
			err = store.Apply(d, *r)
		}
		if err != nil || !through.Partition.Loading() && (store.Sum() != p.sums[i] || store.full() != p.sums[i]) {
			p.w.fail("INV2: partition %d, flushed at random records, differs at offset %d: %v", p.id, i, err)
			return
		}
		for _, t := range d.Tasks {
			through.Evict(t.ID)
		}
		if p.w.aside.IntN(5) > 0 {
			continue
		}
		snap, err := store.Snapshot()
		if err == nil {
			through, err = events.OpenStateAt(newerBuild, p.id, snap, store.Load)
		}
		if err != nil {
			p.w.fail("INV2: partition %d cannot be opened at offset %d: %v", p.id, i, err)
			return
		}
		through.SetLax(p.w.lax())
	}
	if len(p.sums) == 0 {
		return
	}
	last := p.sums[len(p.sums)-1]
	if h, err := wholeSum(fresh); err != nil || h != last {
		p.w.fail("INV2: partition %d, folded from nothing, differs: %v", p.id, err)
	}
	if h, err := through.Hash(); err != nil || h != last {
		p.w.fail("INV2: partition %d, restarted at random records, differs: %v", p.id, err)
	}
}

func (p *partition) fold(s *events.State, r *events.Record) bool {
	f, err := events.DecodeFact(r)
	if err == nil {
		_, err = s.Apply(f, r.Offset)
	}
	if err != nil {
		p.w.fail("INV2: partition %d cannot be folded again at offset %d: %v", p.id, r.Offset, err)
	}
	return err == nil
}
