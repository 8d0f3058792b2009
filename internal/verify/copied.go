package verify

import (
	"context"
	"errors"

	"github.com/sagalog/sagalog/events"
)

// beginsWithCarry says whether the log of a partition begins with a carry: it was cut, or is that of a copied namespace.
func beginsWithCarry(ctx context.Context, p *partition, b Bounds) (bool, error) {
	if b.Start > 0 || b.End == 0 {
		return b.Start > 0, nil
	}
	copied, seen := false, errors.New("the first record was read")
	err := p.cfg.Log.Read(ctx, Span{Topic: p.topics.Events, Partition: p.number, To: 1}, func(r events.Record) error {
		if f, err := events.DecodeFact(&r); err == nil {
			c, carried := f.Body.(*events.CarryBegun)
			copied = carried && c.Copied
		}
		return seen
	})
	if errors.Is(err, seen) {
		err = nil
	}
	return copied, err
}
