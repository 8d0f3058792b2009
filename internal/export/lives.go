package export

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// lives knows, of each task of a partition that the log has not forgotten yet, what its facts do not repeat.
type lives struct {
	topics topicNames
	all    *shelf[shortLife]
	// origins, unless it is nil, are those of the tasks.
	origins *shelf[origin]
	// names are the texts that lives and origins refer to, and places where each is.
	names  []string
	places map[string]uint32
	// texts are those that many facts have, such as the names of steps, each once in memory, and owners the nodes by the source that names them.
	texts, owners map[string]string
	// epoch is that of the fact before, and written how it is written.
	epoch   events.Epoch
	written string
	// longs, shorts and room are for the numbers and texts of the rows to come: one allocation for many of them.
	longs  []int64
	shorts []int32
	room   []byte
}

// life is a task from its submission until it is forgotten.
type life struct {
	incarnation, workflow string
	version, run          int
	origin
	topic string
}

// shortLife is a life as it is kept: epoch and workflow are places of names.
type shortLife struct {
	epoch, workflow, version, run uint32
	// sequence is that of the incarnation; if that is no position, it is noSequence, and the epoch is all of it.
	sequence uint64
}

const noSequence = math.MaxUint64

// origin is the record that submitted a task, and started is when the first attempt of the run did.
type origin struct {
	// input is the place of the name of its topic.
	input     uint32
	partition int32
	offset    int64
	started   events.Instant
	// before is started of the run before.
	before events.Instant
}

func newLives(topics topicNames, in room) *lives {
	t := &lives{topics: topics, all: newShelf[shortLife](in, "lives"), places: map[string]uint32{}, texts: map[string]string{}, owners: map[string]string{}}
	t.name("") // its place is 0, and so the zero life has no texts
	return t
}

func (t *lives) close() error { return errors.Join(t.all.close(), t.origins.close()) }

// name returns the place of a name.
func (t *lives) name(text string) uint32 {
	if at, ok := t.places[text]; ok {
		return at
	}
	text, at := strings.Clone(text), uint32(len(t.names))
	t.names, t.places[text] = append(t.names, text), at
	return at
}

// of returns the life of a task; the zero life if its beginning was cut off.
func (t *lives) of(task string) (life, error) {
	key := keyOf(task)
	l, _, err := t.all.look(key)
	if err != nil {
		return life{}, err
	}
	from, _, err := t.origins.look(key)
	return life{
		incarnation: strings.Clone(t.incarnation(l)), workflow: t.names[l.workflow], version: int(l.version), run: int(l.run),
		origin: from, topic: t.names[from.input],
	}, err
}

// incarnation writes an incarnation, in memory that other texts share.
func (t *lives) incarnation(l shortLife) string {
	epoch := t.names[l.epoch]
	if l.sequence == noSequence || epoch == "" {
		return epoch
	}
	if cap(t.room)-len(t.room) < len(epoch)+21 { // a slash and a number
		t.room = make([]byte, 0, 16<<10+len(epoch))
	}
	from := len(t.room)
	t.room = strconv.AppendUint(append(append(t.room, epoch...), '/'), l.sequence, 10)
	return textOf(t.room[from:])
}

// textOf returns bytes, which never change, as a text.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// take returns the life that a fact of a task belongs to. The zero life is that of a task whose beginning was cut off.
func (t *lives) take(f *Fact, r *events.Record, a *about, at events.Position) (l shortLife, err error) {
	key := keyOf(f.Task)
	switch events.Name(f.Type) {
	case events.NameSubmitted, events.NameChildRefused: // what was known of an earlier task of that ID does not matter
		l = shortLife{epoch: t.name(t.epochText(at.Epoch)), sequence: at.Sequence, workflow: t.name(a.workflow), run: 1}
		if f.Type == string(events.NameSubmitted) {
			l.version = uint32(a.version)
		}
	default:
		if l, _, err = t.all.get(key); err != nil {
			return l, err
		}
	}
	switch events.Name(f.Type) {
	case events.NameSubmitted, events.NameChildRefused:
	case events.NameRunBegun:
		l.run = uint32(a.run)
	case events.NameEntityCarried:
		if l.epoch != 0 { // a carry repeats it
			return l, nil
		}
		carried, ok := carriedLife(r.Value)
		if !ok {
			return l, nil
		}
		l = t.short(carried)
	case events.NameStepStarted:
		return l, t.originOf(key, f)
	default:
		return l, nil
	}
	return l, errors.Join(t.all.put(key, l), t.originOf(key, f))
}

// originOf notes what a fact says of the origin of its task.
func (t *lives) originOf(key taskKey, f *Fact) error {
	if t.origins == nil {
		return nil
	}
	switch events.Name(f.Type) {
	case events.NameSubmitted:
		from := origin{input: t.name(f.CauseTopic)}
		if f.CauseOffset != nil {
			from.partition, from.offset = *f.CausePartition, *f.CauseOffset
		}
		return t.origins.put(key, from)
	case events.NameChildRefused, events.NameEntityCarried:
		return t.origins.drop(key)
	}
	from, ok, err := t.origins.get(key)
	switch {
	case err != nil:
		return err
	case f.Type == string(events.NameRunBegun):
		if !ok {
			return nil
		}
		from.before, from.started = from.started, 0
	case from.started != 0:
		return nil
	default:
		from.started = events.Instant(f.Time)
	}
	return t.origins.put(key, from)
}

// short is a life, without its origin, as it is kept.
func (t *lives) short(l life) shortLife {
	s := shortLife{sequence: noSequence, workflow: t.name(l.workflow), version: uint32(l.version), run: uint32(l.run)}
	if at, err := events.ParsePosition(l.incarnation); err == nil && at.String() == l.incarnation {
		s.epoch, s.sequence = t.name(at.Epoch.String()), at.Sequence
		return s
	}
	s.epoch = t.name(l.incarnation)
	return s
}

// forget drops the tasks that a sweep forgets.
func (t *lives) forget(value []byte) error {
	var b events.TasksSwept
	if err := json.Unmarshal(value, &b); err != nil {
		return err
	}
	for _, task := range b.Tasks {
		key := keyOf(task)
		if err := errors.Join(t.all.drop(key), t.origins.drop(key)); err != nil {
			return err
		}
	}
	return nil
}

// together is how many numbers are allocated at once.
const together = 512

// long returns a place for a number of a row.
func (t *lives) long(n int64) *int64 {
	if len(t.longs) == cap(t.longs) {
		t.longs = make([]int64, 0, together)
	}
	t.longs = append(t.longs, n)
	return &t.longs[len(t.longs)-1]
}

// small returns a place for a small number of a row.
func (t *lives) small(n int32) *int32 {
	if len(t.shorts) == cap(t.shorts) {
		t.shorts = make([]int32, 0, together)
	}
	t.shorts = append(t.shorts, n)
	return &t.shorts[len(t.shorts)-1]
}

// sharedMost bounds the texts that are kept.
const sharedMost = 10_000

// shared returns a text that is the same in memory for many facts.
func (t *lives) shared(text []byte) string {
	if s, ok := t.texts[string(text)]; ok {
		return s
	}
	if len(t.texts) == sharedMost {
		clear(t.texts)
	}
	s := string(text)
	t.texts[s] = s
	return s
}

// writer returns the node that wrote a fact.
func (t *lives) writer(r *events.Record) string {
	source := r.HeaderBytes(events.HeaderSource)
	if s, ok := t.owners[string(source)]; ok {
		return s
	}
	if len(t.owners) == sharedMost {
		clear(t.owners)
	}
	s := verify.Writer(r)
	t.owners[string(source)] = s
	return s
}

// epochText returns how an epoch is written.
func (t *lives) epochText(e events.Epoch) string {
	if t.written == "" || e != t.epoch {
		t.epoch, t.written = events.Epoch{N: e.N, ID: strings.Clone(e.ID)}, e.String()
	}
	return t.written
}

// carriedLife reads the life of a task that is carried, or of the first piece of one; false for other entities.
func carriedLife(value []byte) (l life, ok bool) {
	var b events.EntityCarried
	if json.Unmarshal(value, &b) != nil || b.Kind != events.KindTask {
		return l, false
	}
	text := string(b.Encoding)
	if b.Piece != "" {
		text = b.Piece
	}
	d := json.NewDecoder(strings.NewReader(text)) // of a piece only the beginning can be read, and what is needed is there
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return l, false
	}
	for d.More() && (l.incarnation == "" || l.run == 0 || l.workflow == "" || l.version == 0) {
		name, err := d.Token()
		if err != nil {
			return l, false
		}
		var into any = new(json.RawMessage)
		switch name {
		case "incarnation":
			into = &l.incarnation
		case "run":
			into = &l.run
		case "workflow":
			into = &l.workflow
		case "version":
			into = &l.version
		}
		if d.Decode(into) != nil {
			return l, false
		}
	}
	return l, l.incarnation != ""
}
