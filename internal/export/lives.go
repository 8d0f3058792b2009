package export

import (
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// lives knows, of each task of a partition that the log has not forgotten yet, what its facts do not repeat.
type lives struct {
	all map[string]life
	// texts are those that many facts have, such as the names of workflows, each once in memory, and owners the nodes by the source that names them.
	texts, owners map[string]string
	// epoch is that of the fact before, and written how it is written.
	epoch   events.Epoch
	written string
}

// life is a task from its submission until it is forgotten.
type life struct {
	incarnation, workflow string
	version, run          int
	// topic, partition and offset are the record that submitted the task, and started is when the first attempt of the run did.
	topic     string
	partition int32
	offset    int64
	started   events.Instant
	// before is started of the run before.
	before events.Instant
}

func newLives() *lives {
	return &lives{all: map[string]life{}, texts: map[string]string{}, owners: map[string]string{}}
}

// take returns the life that a fact of a task belongs to. Unknown is that of a task whose beginning was cut off.
func (t *lives) take(f *Fact, r *events.Record, a *about, at events.Position) life {
	task := string(r.Key)
	l := t.all[task]
	switch events.Name(f.Type) {
	case events.NameSubmitted:
		l = life{incarnation: at.String(), workflow: t.shared([]byte(a.workflow)), version: a.version, run: 1, topic: f.CauseTopic}
		if f.CauseOffset != nil {
			l.partition, l.offset = *f.CausePartition, *f.CauseOffset
		}
	case events.NameChildRefused:
		l = life{incarnation: at.String(), workflow: t.shared([]byte(a.workflow)), run: 1}
	case events.NameRunBegun:
		l.run, l.before, l.started = a.run, l.started, 0
	case events.NameStepStarted:
		if l.started != 0 {
			return l
		}
		l.started = events.Instant(f.Time)
	case events.NameEntityCarried:
		if l.incarnation != "" { // a carry repeats it
			return l
		}
		carried, ok := carriedLife(r.Value)
		if !ok {
			return l
		}
		l = carried
		l.workflow = t.shared([]byte(l.workflow))
	default:
		return l
	}
	t.all[task] = l
	return l
}

// forget drops the tasks that a sweep forgets.
func (t *lives) forget(value []byte) error {
	var b events.TasksSwept
	if err := json.Unmarshal(value, &b); err != nil {
		return err
	}
	for _, task := range b.Tasks {
		delete(t.all, task)
	}
	return nil
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
