package projector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Partition is the view of one partition. Its methods are safe for concurrent use.
type Partition struct {
	store  *Store
	number int32

	// commit is held while rows of the partition change.
	commit sync.Mutex
	// rejections is guarded by commit.
	rejections rejectionRows
	// committed is when this process last wrote the partition, in nanoseconds since 1970; zero if it has not.
	committed atomic.Int64
	// view is what the last commit left; never nil.
	view        atomic.Pointer[view]
	watched     watched
	lowerBounds lowerBounds
	// loads serves the partition's owner. Everybody else looks tasks up by Task.
	loads loads
}

// view is what a commit leaves in memory: the meta row and the partition's own entity. It is immutable.
type view struct {
	meta   meta
	exists bool
	// entity decodes the events.PartitionState at most once, and only on demand. So do states and ready with the counts.
	entity func() (events.PartitionState, error)
	states func() map[events.TaskState]int64
	ready  func() map[string]int64
}

func newView(m meta, encoding []byte) *view {
	v := viewOf(m)
	v.exists = true
	v.entity = sync.OnceValues(func() (events.PartitionState, error) {
		var e events.PartitionState
		if encoding == nil {
			return e, nil
		}
		if err := json.Unmarshal(encoding, &e); err != nil {
			return e, fmt.Errorf("%w: the partition's entity: %w", ErrDamaged, err)
		}
		return e, nil
	})
	return v
}

func viewOf(m meta) *view {
	return &view{
		meta:   m,
		states: sync.OnceValue(func() map[events.TaskState]int64 { return countsOf[events.TaskState](m.States) }),
		ready:  sync.OnceValue(func() map[string]int64 { return countsOf[string](m.Ready) }),
	}
}

func newPartition(s *Store, number int32) *Partition {
	p := &Partition{store: s, number: number}
	p.view.Store(emptyView())
	return p
}

func emptyView() *view {
	v := viewOf(meta{})
	v.entity = func() (events.PartitionState, error) { return events.PartitionState{}, nil }
	return v
}

// Snapshot returns what events.OpenState needs, and the anchor. exists is false if nothing was committed since the
// partition was created or reset; it is then folded from the beginning of the log.
func (p *Partition) Snapshot() (snap events.Snapshot, anchor Anchor, exists bool, err error) {
	snap, v, err := p.snapshot(p.store.db)
	if err != nil {
		return snap, anchor, false, err
	}
	snap.Load = p.loadPart
	return snap, v.meta.Anchor, v.exists, nil
}

func (p *Partition) snapshot(r reader) (events.Snapshot, *view, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: p.row(rowMeta), UpperBound: p.row(rowPart + 1)})
	if err != nil {
		return events.Snapshot{}, nil, readError(err)
	}
	it.First()
	snap, v, err := p.read(it)
	if err != nil {
		return snap, nil, closeFailed(err, it)
	}
	return snap, v, closeIter(it)
}

// Frozen calls use with what events.OpenState needs, and with a loader of the tasks as of the same instant, valid until use returns: while
// another goroutine commits, Loader returns tasks that are ahead of a Snapshot.
func (p *Partition) Frozen(use func(snap events.Snapshot, load events.Loader) error) error {
	frozen := p.store.db.NewSnapshot()
	snap, _, err := p.snapshot(frozen)
	if err == nil {
		err = use(snap, func(id string) (task events.StoredTask, err error) {
			key := taskKey(nil, p.number, id)
			_, err = lookupFrom(frozen, key, func(it *pebble.Iterator) error {
				task, err = readTask(it, key, id)
				return err
			})
			return task, err
		})
	}
	return errors.Join(err, frozen.Close())
}

// read reads the meta row and the parts from an iterator positioned before them. They are neighbours, so both come from the
// same commit.
func (p *Partition) read(it *pebble.Iterator) (events.Snapshot, *view, error) {
	var snap events.Snapshot
	if !it.Valid() || string(it.Key()) != string(p.row(rowMeta)) {
		if it.Valid() {
			return snap, nil, fmt.Errorf("%w: partition %d has rows but no offset", ErrDamaged, p.number)
		}
		return snap, emptyView(), it.Error()
	}
	m, err := decodeMeta(it.Value())
	if err != nil {
		return snap, nil, fmt.Errorf("partition %d: %w", p.number, err)
	}
	snap = events.Snapshot{Next: m.Next, Sum: m.Sum, Runs: m.Runs, Carries: m.Carries}
	var entity []byte
	prefix := p.row(rowPart)
	for it.Next() && len(it.Key()) > len(prefix) && string(it.Key()[:len(prefix)]) == string(prefix) {
		kind, id, ok := cutText(it.Key()[len(prefix):])
		if !ok {
			return snap, nil, fmt.Errorf("%w: part row %x", ErrDamaged, it.Key())
		}
		row := events.PartRow{Kind: events.Kind(kind), ID: string(id), Encoding: append([]byte(nil), it.Value()...)}
		if row.Kind == events.KindPartition {
			entity = row.Encoding
		}
		snap.Parts = append(snap.Parts, row)
	}
	return snap, newView(m, entity), it.Error()
}

// loadPart is events.Snapshot.Load.
func (p *Partition) loadPart(k events.Kind, id string) (encoding []byte, err error) {
	err = p.lookup(partKey(nil, p.number, string(k), id), func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		encoding = append([]byte{}, value...)
		return err
	})
	if err == nil && encoding == nil {
		err = fmt.Errorf("%w: partition %d has no row of %s %s", ErrDamaged, p.number, k, id)
	}
	return encoding, err
}

// Held returns a request that is held for a task that does not exist yet; nil if it is not held.
func (p *Partition) Held(task, request string) (held *events.HeldRequest, err error) {
	err = p.lookup(partKey(nil, p.number, string(events.KindHeld), task+"\x00"+request), func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		held = new(events.HeldRequest)
		return json.Unmarshal(value, held)
	})
	return held, err
}

// Schedule returns a schedule whose home is the partition; nil if it is not known.
func (p *Partition) Schedule(name string) (x *events.Schedule, err error) {
	err = p.lookup(partKey(nil, p.number, string(events.KindSchedule), name), func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		x = new(events.Schedule)
		return json.Unmarshal(value, x)
	})
	return x, err
}

// Loader returns the function by which events.State loads tasks that it does not hold in memory.
func (p *Partition) Loader() events.Loader {
	return func(id string) (events.StoredTask, error) { return p.loads.task(p, id) }
}

// Task returns a task by its ID; ok is false if it is unknown.
func (p *Partition) Task(id string) (task *events.Task, ok bool, err error) {
	stored, err := p.stored(id)
	if stored.Encoding == nil || err != nil {
		return nil, false, err
	}
	task, err = decodeTask(stored)
	return task, err == nil, err
}

// stored returns copies of all rows of a task.
func (p *Partition) stored(id string) (task events.StoredTask, err error) {
	key := taskKey(nil, p.number, id)
	err = p.lookup(key, func(it *pebble.Iterator) error {
		task, err = readTask(it, key, id)
		return err
	})
	return task, err
}

// lookup calls use with an iterator at a row, if there is one; use may move it.
func (p *Partition) lookup(key []byte, use func(it *pebble.Iterator) error) error {
	p.store.open.RLock()
	defer p.store.open.RUnlock()
	if p.store.closed {
		return ErrClosed
	}
	_, err := lookupFrom(p.store.db, key, use)
	return err
}

func decodeTask(stored events.StoredTask) (*events.Task, error) {
	task, err := events.DecodeTask(stored.Encoding, stored.Rows)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return task, nil
}

// readTask returns copies of all rows of a task, from an iterator that is positioned at the head, whose key is given.
func readTask(it *pebble.Iterator, key []byte, id string) (task events.StoredTask, err error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return task, readError(err)
	}
	head, err := readTaskRow(append(make([]byte, 0, len(value)), value...))
	if err != nil {
		return task, err
	}
	task = events.StoredTask{Encoding: head.encoding, Keys: head.keys}
	if head.others == 0 {
		return task, nil
	}
	prefix := append(key, taskEnd)
	for ok := it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		row, err := readOther(it)
		if err != nil {
			return events.StoredTask{}, err
		}
		task.Rows = append(task.Rows, row)
	}
	if err := it.Error(); err != nil {
		return events.StoredTask{}, readError(err)
	}
	if uint64(len(task.Rows)) != head.others {
		return events.StoredTask{}, fmt.Errorf("%w: the task %q has %d rows besides its head, and %d are expected", ErrDamaged, id, len(task.Rows), head.others)
	}
	return task, nil
}

// readOther returns a copy of a row that is not a head.
func readOther(it *pebble.Iterator) (events.PartRow, error) {
	task, kind, part, err := otherOf(it.Key()[rowPrefix:])
	if err != nil {
		return events.PartRow{}, err
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return events.PartRow{}, readError(err)
	}
	return events.PartRow{Kind: kind, ID: otherID(task, part), Encoding: append(make([]byte, 0, len(value)), value...)}, nil
}

// otherID returns the ID of the entity of a task's row. An input or an output has no part.
func otherID(task, part string) string {
	if part == "" {
		return task
	}
	return task + "\x00" + part
}

func (p *Partition) row(kind byte) []byte { return appendRow(nil, p.number, kind) }
