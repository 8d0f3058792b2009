package projector

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Limit returns a limit to which some link is known; nil if none is.
func (p *Partition) Limit(name string) (limit *events.Limit, err error) {
	err = p.lookup(partKey(nil, p.number, string(events.KindLimit), name), func(it *pebble.Iterator) error {
		limit, err = p.readLimit(it, name)
		return err
	})
	return limit, err
}

// readLimit reads a limit and its links from an iterator that is positioned at its row, which moves it.
func (p *Partition) readLimit(it *pebble.Iterator, name string) (*events.Limit, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	row := bytes.Clone(value)
	var permits [][]byte
	prefix := partKey(nil, p.number, string(events.KindPermit), name+"\x00")
	for ok := it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		if value, err = it.ValueAndErr(); err != nil {
			return nil, err
		}
		permits = append(permits, bytes.Clone(value))
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	limit, err := events.ReadLimit(row, permits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return limit, nil
}

// EachLimit calls use with each limit to which some link is known, in the order of their names, all as of the same commit.
func (p *Partition) EachLimit(use func(*events.Limit)) error {
	p.store.open.RLock()
	defer p.store.open.RUnlock()
	if p.store.closed {
		return ErrClosed
	}
	it, err := p.store.db.NewIter(&pebble.IterOptions{LowerBound: p.row(rowPart), UpperBound: p.row(rowPart + 1)})
	if err != nil {
		return readError(err)
	}
	first := partKey(nil, p.number, string(events.KindLimit), "")
	for ok := it.SeekGE(first); ok && bytes.HasPrefix(it.Key(), first); {
		key := bytes.Clone(it.Key())
		limit, err := p.readLimit(it, string(key[len(first):]))
		if err != nil {
			return closeFailed(err, it)
		}
		use(limit)
		ok = it.SeekGE(append(key, 0))
	}
	if err := it.Error(); err != nil {
		return closeFailed(readError(err), it)
	}
	return closeIter(it)
}
