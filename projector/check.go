package projector

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// maxFaults bounds what CheckIndexes reports.
const maxFaults = 20

// CheckIndexes reads everything and says what does not fit: a row that cannot be decoded, an index row that is missing
// or too much, keys that differ from their task, a count that is wrong. It sees one instant and hinders nobody. Its
// errors are ErrIndexes.
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
	// partition is the one whose rows are being read, -1 before the first; stored is its meta row, and counted what
	// its rows amount to.
	partition       int32
	stored, counted meta
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf("%w: %s", ErrIndexes, fmt.Sprintf(format, args...)))
	}
}

func (c *checker) run() error {
	if err := c.each(spacePartition, c.row); err != nil {
		return err
	}
	c.endPartition()
	if err := c.each(spaceList, func(_, _ []byte) error { c.found++; return nil }); err != nil {
		return err
	}
	if c.wanted == c.found {
		return nil // all that are wanted were looked up, so there are no others
	}
	c.fault("%d index rows, and the tasks ask for %d", c.found, c.wanted)
	return errors.Join(c.each(spacePartition, c.surplus), c.each(spaceList, c.surplus))
}

func (c *checker) each(space byte, yield func(key, value []byte) error) error {
	it, err := c.reader.NewIter(&pebble.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
	if err != nil {
		return readError(err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = yield(it.Key(), it.Value())
	}
	return errors.Join(err, closeIter(it))
}

// row takes the rows of all partitions in order: the meta row of each comes first.
func (c *checker) row(key, value []byte) error {
	if len(key) < rowPrefix {
		c.fault("row %x", key)
		return nil
	}
	if partition := readPartition(key[1:]); partition != c.partition {
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
	case rowTask:
		return c.task(string(key[rowPrefix:]), value)
	default:
		c.found++
	}
	return nil
}

func (c *checker) endPartition() {
	a, b := &c.stored, &c.counted
	if a.Due != b.Due || a.Unplanned != b.Unplanned || !slices.Equal(a.States, b.States) || !slices.Equal(a.Ready, b.Ready) {
		c.fault("partition %d has the counts %+v, and its tasks make %+v", c.partition, *a, *b)
	}
}

func (c *checker) task(id string, value []byte) error {
	keys, err := c.keys(id, value)
	if err != nil {
		c.fault("task %q: %s", id, err)
		return nil
	}
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

// keys reads the keys of a task's row and compares them with the task.
func (c *checker) keys(id string, value []byte) (*events.Keys, error) {
	encoding, raw, err := splitTaskRow(value)
	if err != nil {
		return nil, err
	}
	k, err := decodeKeys(raw)
	if err != nil {
		return nil, err
	}
	t, err := events.DecodeTask(encoding)
	if err != nil {
		return nil, err
	}
	if t.ID != id || t.State != k.State || t.Workflow != k.Workflow || t.SubmittedAt != k.SubmittedAt ||
		t.EndedAt != k.EndedAt || !maps.Equal(t.Labels, k.Labels) {
		return nil, fmt.Errorf("its keys %s are not those of %s", raw, encoding)
	}
	return k, nil
}

// surplus finds the index rows that no task asks for.
func (c *checker) surplus(key, _ []byte) error {
	partition, id, ok := taskOf(key)
	if !ok {
		return nil
	}
	var keys *events.Keys
	_, err := lookup(c.reader, taskKey(nil, partition, id), func(value []byte) (err error) {
		keys, err = c.keys(id, value)
		return err
	})
	c.set.fill(partition, id, keys)
	if err == nil && !c.set.has(key, 0) {
		c.fault("no task asks for the index row %q (task %q)", key, id)
	}
	return nil // a task that cannot be read was reported before
}

// taskOf returns the task of an index row; ok is false for every other row.
func taskOf(key []byte) (partition int32, id string, ok bool) {
	switch {
	case len(key) > 1 && key[0] == spaceList:
		return taskOfList(key[1:])
	case len(key) < rowPrefix:
		return 0, "", false // no row of ours is so short
	}
	partition, rest := readPartition(key[1:]), key[rowPrefix:]
	switch key[rowPrefix-1] {
	case rowUnplanned:
		return partition, string(rest), true
	case rowDue, rowEnded:
		if len(rest) < intSize {
			return 0, "", false
		}
		return partition, string(rest[intSize:]), true
	case rowReady:
		agent, rest, ok := cutText(rest)
		if !ok {
			return 0, "", false
		}
		row, ok := readReady(rest, agent)
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
