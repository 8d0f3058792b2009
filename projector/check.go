package projector

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// maxFaults bounds what CheckIndexes reports.
const maxFaults = 20

// CheckIndexes reads everything and reports inconsistencies: rows that cannot be decoded, missing or surplus index rows,
// keys that differ from their task, wrong counts. It works on a snapshot and blocks nobody. Its errors are ErrIndexes.
func (s *Store) CheckIndexes() error {
	snap := s.db.NewSnapshot()
	c := &checker{reader: snap, partition: -1}
	err := c.run()
	if err := errors.Join(err, snap.Close()); err != nil {
		return err
	}
	return errors.Join(c.faults...)
}

type checker struct {
	reader reader
	faults []error
	set    keySet
	// wanted and found count index rows.
	wanted, found int
	// partition is the one whose rows are being read, -1 before the first; stored is its meta row, and counted the counts of its
	// rows.
	partition       int32
	stored, counted meta
	// task is the task whose rows are being read, as far as they were read; its ID is empty between tasks.
	task struct {
		id     string
		others uint64
		events.StoredTask
	}
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf("%w: %s", ErrIndexes, fmt.Sprintf(format, args...)))
	}
}

func (c *checker) run() error {
	if err := eachOf(c.reader, []byte{spacePartition}, c.row); err != nil {
		return err
	}
	if err := c.endTask(); err != nil {
		return err
	}
	c.endPartition()
	if err := eachOf(c.reader, []byte{spaceList}, func(_, _ []byte) error { c.found++; return nil }); err != nil {
		return err
	}
	if c.wanted == c.found {
		return nil // every wanted row was found, so there is no surplus
	}
	c.fault("there are %d index rows, but the tasks require %d", c.found, c.wanted)
	return errors.Join(eachOf(c.reader, []byte{spacePartition}, c.surplus), eachOf(c.reader, []byte{spaceList}, c.surplus))
}

// row is called with the rows of all partitions in order; each partition's meta row comes first.
func (c *checker) row(key, value []byte) error {
	if len(key) < rowPrefix {
		c.fault("unknown row %x", key)
		return nil
	}
	partition := readPartition(key[1:])
	if partition != c.partition || key[rowPrefix-1] != rowTask {
		if err := c.endTask(); err != nil {
			return err
		}
	}
	if partition != c.partition {
		c.endPartition()
		c.partition, c.stored, c.counted = partition, meta{}, meta{}
		if key[rowPrefix-1] != rowMeta {
			c.fault("partition %d has no offset", partition)
		}
	}
	switch key[rowPrefix-1] {
	case rowMeta:
		var err error
		if c.stored, err = decodeMeta(value); err != nil {
			c.fault("partition %d: %s", c.partition, err)
		}
	case rowPart:
	case rowHistory:
		err := eachOffset(value, func(offset int64) bool {
			if offset >= c.stored.Next {
				c.fault("offset %d of the history row %x of partition %d is not below offset %d", offset, key, c.partition, c.stored.Next)
			}
			return offset < c.stored.Next
		})
		if err != nil {
			c.fault("history row %x of partition %d: %s", key, c.partition, err)
		}
	case rowRejection:
		if fact, _, ok := readRejection(value); !ok || fact >= c.stored.Next {
			c.fault("the rejection row %x of partition %d does not name a fact below offset %d", key, c.partition, c.stored.Next)
		}
	case rowTask:
		return c.taskRow(key[rowPrefix:], value)
	default:
		c.found++
	}
	return nil
}

func (c *checker) endPartition() {
	a, b := &c.stored, &c.counted
	if a.Due != b.Due || a.Wake != b.Wake || a.Unplanned != b.Unplanned || !slices.Equal(a.States, b.States) || !slices.Equal(a.Ready, b.Ready) || !slices.Equal(a.Waits, b.Waits) || !slices.Equal(a.Live, b.Live) {
		c.fault("partition %d stores the counts %+v, but its tasks add up to %+v", c.partition, *a, *b)
	}
}

// taskRow is called with the rows of a task in order; its head comes first.
func (c *checker) taskRow(key, value []byte) error {
	id, kind, part, err := otherOf(key)
	if err != nil {
		c.fault("%s", err)
		return nil
	}
	if kind == "" {
		if err := c.endTask(); err != nil {
			return err
		}
		row, err := readTaskRow(bytes.Clone(value))
		if err != nil {
			c.fault("task %q: %s", id, err)
			return nil
		}
		c.task.id, c.task.others, c.task.StoredTask = id, row.others, events.StoredTask{Encoding: row.encoding, Keys: row.keys}
		return nil
	}
	if id != c.task.id {
		c.fault("the %s row %q belongs to no task", kind, key)
		return nil
	}
	c.task.Rows = append(c.task.Rows, events.PartRow{Kind: kind, ID: otherID(id, part), Encoding: bytes.Clone(value)})
	return nil
}

// endTask checks the task whose rows were read.
func (c *checker) endTask() error {
	t := c.task
	c.task.id, c.task.StoredTask = "", events.StoredTask{}
	if t.Encoding == nil {
		return nil
	}
	if n := uint64(len(t.Rows)); n != t.others {
		c.fault("task %q has %d rows besides its head, and %d are expected", t.id, n, t.others)
		return nil
	}
	keys, err := keysOf(t.id, t.StoredTask)
	if err != nil {
		c.fault("task %q: %s", t.id, err)
		return nil
	}
	id := t.id
	c.counted.count(keys, 1)
	c.set.fill(c.partition, id, keys)
	c.wanted += len(c.set.rows)
	for i := range c.set.rows {
		found, err := lookup(c.reader, c.set.at(i), func([]byte) error { return nil })
		if err != nil {
			return err
		}
		if !found {
			c.fault("task %q has no index row %q", id, c.set.at(i))
		}
	}
	return nil
}

// keysOf reads the keys of a task and compares them with the task.
func keysOf(id string, stored events.StoredTask) (*events.Keys, error) {
	k, err := decodeKeys(stored.Keys)
	if err != nil {
		return nil, err
	}
	t, err := events.DecodeTask(stored.Encoding, stored.Rows)
	if err != nil {
		return nil, err
	}
	if t.ID != id || t.State != k.State || t.Workflow != k.Workflow || t.SubmittedAt != k.SubmittedAt ||
		t.EndedAt != k.EndedAt || !maps.Equal(t.Labels, k.Labels) {
		return nil, fmt.Errorf("its stored keys %s differ from those of %s", stored.Keys, stored.Encoding)
	}
	return k, nil
}

// surplus reports the index rows that no task requires.
func (c *checker) surplus(key, _ []byte) error {
	partition, id, ok := taskOf(key)
	if !ok {
		return nil
	}
	var keys *events.Keys
	task := taskKey(nil, partition, id)
	_, err := lookupFrom(c.reader, task, func(it *pebble.Iterator) error {
		stored, err := readTask(it, task, id)
		if err == nil {
			keys, err = keysOf(id, stored)
		}
		return err
	})
	c.set.fill(partition, id, keys)
	if err == nil && !c.set.has(key, 0) {
		c.fault("index row %q is surplus: task %q does not require it", key, id)
	}
	return nil // an unreadable task has been reported already
}

// taskOf returns the task of an index row; ok is false for every other row.
func taskOf(key []byte) (partition int32, id string, ok bool) {
	switch {
	case len(key) > 1 && key[0] == spaceList:
		return taskOfList(key[1:])
	case len(key) < rowPrefix:
		return 0, "", false // no valid row is that short
	}
	partition, rest := readPartition(key[1:]), key[rowPrefix:]
	switch key[rowPrefix-1] {
	case rowUnplanned:
		return partition, string(rest), true
	case rowDue, rowWake, rowEnded, rowForget:
		if len(rest) < intSize {
			return 0, "", false
		}
		return partition, string(rest[intSize:]), true
	case rowReady:
		queue, rest, ok := cutText(rest)
		if !ok {
			return 0, "", false
		}
		op, rest, ok := cutText(rest)
		if !ok {
			return 0, "", false
		}
		fairBy, rest, ok := cutText(rest)
		if !ok {
			return 0, "", false
		}
		row, ok := readReady(rest, events.Line{Queue: queue, Operation: events.Operation(op), FairBy: fairBy})
		return partition, row.Task, ok
	}
	return 0, "", false
}

func taskOfList(key []byte) (partition int32, id string, ok bool) {
	rest := key[1:]
	texts := map[byte]int{listState: 1, listWorkflow: 1, listLabel: 2}[key[0]]
	for range texts {
		if _, rest, ok = cutText(rest); !ok {
			return 0, "", false
		}
	}
	id, partition, ok = readSuffix(rest)
	return partition, id, ok
}
