package projector

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Filter selects the tasks that List returns: those that match every member that is set.
type Filter struct {
	// States lists the states that a task may have to match.
	States   []events.TaskState
	Workflow string
	// Labels are the labels that a task must have, with their values.
	Labels map[string]string
	// Since (inclusive) and Until (exclusive) bound the time of submission; zero means no bound.
	Since, Until events.Instant
	// Partitions are the partitions to list; empty means all in the store.
	Partitions []int32
	// Limit is the maximum number of tasks of a page: zero means 100, more than MaxList means MaxList.
	Limit int
	// Cursor is the cursor that the previous page returned; "" begins at the newest task.
	Cursor string
	// Brief leaves out the input, the output and the steps of each task, which are then not decoded.
	Brief bool
}

// MaxList bounds a page, since each task may be large.
const MaxList = 1000

const defaultList = 100

// MaxListBytes bounds the rows that one page reads, except when its first task alone is larger: a thousand tasks of a
// megabyte would otherwise be decoded for one page. Such a page is shorter than its limit and has a cursor for the next.
const MaxListBytes = 8 << 20

// maxListSteps bounds the index rows that one page examines, to about 20 ms. Only a filter whose members rarely match
// together reaches it; such a page is shorter than its limit, or empty, and still has a cursor for the next.
const maxListSteps = 20_000

// List returns tasks of all partitions, newest first, and the cursor of the next page, or "" at the end. A page shows one
// instant. Pages are stable under writes: a task that keeps matching the filter appears exactly once, and tasks submitted
// meanwhile belong before the first page.
func (s *Store) List(f Filter) (tasks []*events.Task, next string, err error) {
	from, err := f.begin()
	if err != nil {
		return nil, "", err
	}
	snap := s.db.NewSnapshot()
	j, err := openJoin(snap, f)
	if err != nil {
		return nil, "", errors.Join(err, snap.Close())
	}
	tasks, next, err = f.page(snap, j, from)
	if err := errors.Join(err, j.close(), snap.Close()); err != nil {
		return nil, "", err
	}
	return tasks, next, nil
}

// begin returns the suffix at which the page begins.
func (f *Filter) begin() ([]byte, error) {
	var from []byte
	if f.Until != 0 {
		from = appendInverted(nil, int64(f.Until-1))
	}
	if f.Cursor == "" {
		return from, nil
	}
	cursor, err := decodeCursor(f.Cursor)
	if err != nil || bytes.Compare(cursor, from) < 0 {
		return from, err
	}
	return cursor, nil
}

func (f *Filter) limit() int {
	if f.Limit <= 0 {
		return defaultList
	}
	return min(f.Limit, MaxList)
}

func (f *Filter) page(r reader, j *join, at []byte) (tasks []*events.Task, next string, err error) {
	size := 0
	for {
		suffix, fits, err := j.seek(at)
		if err != nil || suffix == nil {
			return tasks, "", err
		}
		if f.Since != 0 && readInverted(suffix) < int64(f.Since) {
			return tasks, "", nil
		}
		if !fits {
			return tasks, encodeCursor(suffix), nil
		}
		id, partition, ok := readSuffix(suffix)
		if !ok {
			return nil, "", fmt.Errorf("%w: list row %x", ErrDamaged, suffix)
		}
		if len(f.Partitions) > 0 && !slices.Contains(f.Partitions, partition) {
			at = append(suffix, 0)
			continue
		}
		if len(tasks) == f.limit() {
			return tasks, encodeCursor(suffix), nil
		}
		key := taskKey(nil, partition, id)
		if _, err := lookupFrom(r, key, func(it *pebble.Iterator) error { // not found if its partition is being reset
			stored, err := f.read(it, key, id)
			if err != nil {
				return err
			}
			if size += sizeOf(stored); size > MaxListBytes && len(tasks) > 0 {
				return errPageFull
			}
			task, err := f.decode(stored)
			if err == nil {
				tasks = append(tasks, task)
			}
			return err
		}); errors.Is(err, errPageFull) {
			return tasks, encodeCursor(suffix), nil
		} else if err != nil {
			return nil, "", err
		}
		at = append(suffix, 0)
	}
}

// errPageFull says that the next task would exceed the bytes of a page.
var errPageFull = errors.New("the page is full")

// read reads the task whose head the iterator is at. If only the head is needed, it is valid until the iterator moves.
func (f *Filter) read(it *pebble.Iterator, key []byte, id string) (events.StoredTask, error) {
	if !f.Brief {
		return readTask(it, key, id)
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return events.StoredTask{}, readError(err)
	}
	row, err := readTaskRow(value)
	return events.StoredTask{Encoding: row.encoding, Keys: row.keys}, err
}

func sizeOf(stored events.StoredTask) int {
	n := len(stored.Encoding) + len(stored.Keys)
	for i := range stored.Rows {
		n += len(stored.Rows[i].Encoding)
	}
	return n
}

func (f *Filter) decode(stored events.StoredTask) (*events.Task, error) {
	if !f.Brief {
		return decodeTask(stored)
	}
	task, err := events.DecodeBrief(stored.Encoding)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return task, nil
}

// join walks several lists at once and finds the suffixes common to all. It leapfrogs: each list seeks to the position
// of the one before it.
type join struct {
	lists []list
	steps int
}

// list is the union of several ranges of rows, since a task matches a filter in any of several states.
type list []*listRange

type listRange struct {
	iter   *pebble.Iterator
	prefix []byte
	// ended says that there are no rows at or after some target; later targets are greater.
	ended bool
}

// lists returns the lists to intersect; each is the union of the rows under its prefixes.
func (f *Filter) lists() [][][]byte {
	var all [][][]byte
	for key, value := range f.Labels {
		all = append(all, [][]byte{labelPrefix(nil, key, value)})
	}
	if f.Workflow != "" {
		all = append(all, [][]byte{listPrefix(nil, listWorkflow, f.Workflow)})
	}
	var states [][]byte
	for _, state := range f.States {
		states = append(states, listPrefix(nil, listState, string(state)))
	}
	if len(states) > 0 {
		all = append(all, states)
	}
	if len(all) == 0 {
		all = append(all, [][]byte{{spaceList, listAll}})
	}
	return all
}

func openJoin(r reader, f Filter) (*join, error) {
	j := &join{}
	for _, prefixes := range f.lists() {
		var l list
		for _, prefix := range prefixes {
			it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
			if err != nil {
				return nil, errors.Join(readError(err), l.close(), j.close())
			}
			l = append(l, &listRange{iter: it, prefix: prefix})
		}
		j.lists = append(j.lists, l)
	}
	return j, nil
}

func (j *join) close() error {
	var err error
	for _, l := range j.lists {
		err = errors.Join(err, l.close())
	}
	return err
}

func (l list) close() error {
	var err error
	for _, r := range l {
		err = errors.Join(err, r.iter.Close())
	}
	return err
}

// seek returns the first suffix at or after at that all lists contain, or nil. fits is false if it gave up first; the suffix
// is then where to resume.
func (j *join) seek(at []byte) (suffix []byte, fits bool, err error) {
	target := bytes.Clone(at)
	for agreed, i := 0, 0; agreed < len(j.lists); i = (i + 1) % len(j.lists) {
		if j.steps += len(j.lists[i]); j.steps > maxListSteps && len(target) >= intSize {
			return target, false, nil
		}
		found, err := j.lists[i].seek(target)
		if found == nil || err != nil {
			return nil, false, err
		}
		if bytes.Equal(found, target) {
			agreed++
		} else {
			target, agreed = append(target[:0], found...), 1
		}
	}
	return target, true, nil
}

// seek moves the list forward to the first suffix at or after target, or returns nil at its end.
func (l list) seek(target []byte) (suffix []byte, err error) {
	for _, r := range l {
		found, err := r.seek(target)
		if err != nil {
			return nil, err
		}
		if found != nil && (suffix == nil || bytes.Compare(found, suffix) < 0) {
			suffix = found
		}
	}
	return suffix, nil
}

func (l *listRange) seek(target []byte) (suffix []byte, err error) {
	if l.ended {
		return nil, nil
	}
	it := l.iter
	ok := it.Valid() && bytes.Compare(it.Key()[len(l.prefix):], target) >= 0
	if !ok && it.Valid() { // usually it is the next row
		ok = it.Next() && bytes.Compare(it.Key()[len(l.prefix):], target) >= 0
	}
	if !ok {
		ok = it.SeekGE(append(bytes.Clone(l.prefix), target...))
	}
	if !ok {
		l.ended = true
		return nil, it.Error()
	}
	return it.Key()[len(l.prefix):], nil
}
