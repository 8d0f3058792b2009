package projector

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Rows gives each entity of a partition as it stands in the store: what the state hash counts. It sees one instant. The
// encoding is good until yield returns.
func (s *Store) Rows(partition int32, yield func(kind events.Kind, id string, encoding []byte) error) error {
	snap := s.db.NewSnapshot()
	return errors.Join(s.rows(snap, partition, yield), snap.Close())
}

func (s *Store) rows(r reader, partition int32, yield func(kind events.Kind, id string, encoding []byte) error) error {
	parts, tasks := appendRow(nil, partition, rowPart), appendRow(nil, partition, rowTask)
	if err := eachOf(r, parts, func(rest, value []byte) error {
		kind, id, ok := cutText(rest)
		if !ok {
			return fmt.Errorf("%w: part row %x of partition %d", ErrDamaged, rest, partition)
		}
		return yield(events.Kind(kind), string(id), value)
	}); err != nil {
		return err
	}
	return eachOf(r, tasks, func(rest, value []byte) error {
		encoding, _, err := splitTaskRow(value)
		if err != nil {
			return err
		}
		return yield(events.KindTask, string(rest), encoding)
	})
}

// eachOf gives each row with the prefix, without it.
func eachOf(r reader, prefix []byte, yield func(rest, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return fmt.Errorf("read the state store: %w", err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = yield(it.Key()[len(prefix):], it.Value())
	}
	return errors.Join(err, closeIter(it))
}
