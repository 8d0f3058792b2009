package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// LossRecord is a record that accepts a loss.
type LossRecord struct {
	events.AcceptedLoss
	Offset int64
}

// lossOf names a partition of an input.
type lossOf struct {
	in        events.Input
	partition int32
}

// AcceptedLoss returns the latest loss of an input that was accepted.
func (c *Catalog) AcceptedLoss(in events.Input, partition int32) (LossRecord, bool) {
	r, ok := c.now.Load().losses[lossOf{in, partition}]
	return r, ok
}

// LossesAfter returns the latest accepted loss of each input whose record is at the offset or after it.
func (c *Catalog) LossesAfter(offset int64) (list []LossRecord) {
	for _, r := range c.now.Load().losses {
		if r.Offset >= offset {
			list = append(list, r)
		}
	}
	return list
}

func (c *Catalog) applyLoss(offset int64, data []byte) error {
	r := LossRecord{Offset: offset}
	if err := json.Unmarshal(data, &r.AcceptedLoss); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeLoss, err)
	}
	if !slices.Contains(events.Inputs[:], r.Input) || r.Partition < 0 || r.From < 0 || r.To < r.From {
		return fmt.Errorf("read %s: %s partition %d, offsets %d to %d cannot be a loss", events.TypeLoss, r.Input, r.Partition, r.From, r.To)
	}
	s := *c.now.Load()
	if s.losses = maps.Clone(s.losses); s.losses == nil {
		s.losses = map[lossOf]LossRecord{}
	}
	s.losses[lossOf{r.Input, r.Partition}] = r
	c.now.Store(&s)
	return nil
}

// EncodeLoss returns the record of an accepted loss for <ns>.definitions.
func EncodeLoss(l *events.AcceptedLoss, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(l.Key()), Value: b, Headers: headers(s, events.TypeLoss, "")}, nil
}
