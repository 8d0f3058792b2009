package projector

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Rows calls yield with each stored entity of a partition: what the state hash covers. It shows one instant. The encoding is
// valid until yield returns.
func (s *Store) Rows(partition int32, yield func(kind events.Kind, id string, encoding []byte) error) error {
	snap := s.db.NewSnapshot()
	return errors.Join(s.rows(snap, partition, yield), snap.Close())
}

func (s *Store) rows(r reader, partition int32, yield func(kind events.Kind, id string, encoding []byte) error) error {
	parts, tasks := appendRow(nil, partition, rowPart), appendRow(nil, partition, rowTask)
	if err := eachOf(r, parts, func(key, value []byte) error {
		kind, id, ok := cutText(key[rowPrefix:])
		if !ok {
			return fmt.Errorf("%w: part row %x of partition %d", ErrDamaged, key, partition)
		}
		return yield(events.Kind(kind), string(id), value)
	}); err != nil {
		return err
	}
	return eachOf(r, tasks, func(key, value []byte) error {
		task, kind, part, err := otherOf(key[rowPrefix:])
		if err != nil {
			return err
		}
		if kind != "" {
			return yield(kind, otherID(task, part), value)
		}
		row, err := readTaskRow(value)
		if err != nil {
			return err
		}
		return yield(events.KindTask, task, row.encoding)
	})
}

// eachOf calls yield with each row under the prefix. Key and value are valid until it returns.
func eachOf(r reader, prefix []byte, yield func(key, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return readError(err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = yield(it.Key(), it.Value())
	}
	return errors.Join(err, closeIter(it))
}
