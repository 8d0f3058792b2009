package namespacecopy

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// definitions are the definitions of the copy. Their records have the offsets that they had: facts name them by these.
type definitions struct {
	*copying
	records []events.Record
}

// definitionsAtOnce bounds what is sent together: a definition may have 1.5 MiB.
const definitionsAtOnce = 8

// writeDefinitions writes all of them but NamespaceCreated.
func (c *copying) writeDefinitions(ctx context.Context) (*definitions, error) {
	d := &definitions{copying: c}
	d.collect()
	d.pending()
	first, err := scheduler.EncodeCopying(events.Copying{From: c.from.name, Created: int64(len(d.records))}, d.subject())
	if err != nil {
		return nil, err
	}
	d.records[0] = first
	for from := 0; from < len(d.records); from += definitionsAtOnce {
		if err := d.append(ctx, from, d.records[from:min(from+definitionsAtOnce, len(d.records))]); err != nil {
			return nil, err
		}
	}
	c.say("%d records of definitions are copied", c.result.Definitions)
	return d, nil
}

// append writes records and expects them at these offsets.
func (d *definitions) append(ctx context.Context, at int, records []events.Record) error {
	topic := d.To.topics().Definitions()
	for i := range records {
		records[i].Topic, records[i].Partition = topic, 0
	}
	offsets, err := d.logs.Append(ctx, records...)
	if err != nil {
		return fmt.Errorf("write to %s: %w", topic, err)
	}
	for i, o := range offsets {
		if o != int64(at+i) {
			return fmt.Errorf("a record of %s has offset %d, and must have %d: somebody else writes there; stop all nodes of the new namespace", topic, o, at+i)
		}
	}
	return nil
}

func (d *definitions) subject() events.Subject {
	return events.Subject{ID: freshID(), Source: sourceOf(d.To.Namespace), Time: events.At(d.made)}
}

// collect keeps each record at its offset, and fills the other offsets.
func (d *definitions) collect() {
	from := d.from.definitions
	end := from[len(from)-1].Offset + 1
	d.records = make([]events.Record, end)
	for i := range d.records {
		d.records[i] = scheduler.EncodeOmitted(d.subject())
	}
	for i := range from {
		if r := &from[i]; !scheduler.Omits(d.from.catalog, r) {
			d.records[r.Offset] = events.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}
			d.result.Definitions++
		}
	}
}

// pending applies once more the schedules and limits whose latest record the old partition had not adopted: a partition adopts only records behind all
// that it has adopted, and those of the copy have adopted what any old one has.
func (d *definitions) pending() {
	at := map[int64]*events.Record{}
	for i := range d.from.definitions {
		if r := &d.from.definitions[i]; !r.Control {
			at[r.Offset] = r
		}
	}
	again := func(key string, offset int64, adopted func(*events.PartitionState) int64) {
		home := d.from.parts[events.Home(key, d.from.ns.Partitions)]
		if r := at[offset]; r != nil && string(r.Key) == key && offset > adopted(&home.state.Partition) {
			d.records = append(d.records, events.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	for name, r := range d.from.catalog.Schedules() {
		adopted := func(p *events.PartitionState) int64 { return p.SchedulesOffset }
		if r.Body != nil && r.Deleted > 0 { // otherwise the schedule that was deleted would go on as the new one
			again(events.ScheduleKey(name), r.Deleted, adopted)
		}
		again(events.ScheduleKey(name), r.Offset, adopted)
	}
	for name, r := range d.from.catalog.Limits() {
		again(events.LimitKey(name), r.Offset, func(p *events.PartitionState) int64 { return p.LimitsOffset })
	}
}

// complete writes the record with which the namespace exists.
func (d *definitions) complete(ctx context.Context) error {
	ns := scheduler.Namespace{ID: d.from.ns.ID, Partitions: d.Partitions, Format: d.from.ns.Format}
	r, err := scheduler.EncodeNamespace(ns, events.Subject{ID: ns.ID, Source: sourceOf(d.To.Namespace), Time: events.At(d.made)})
	if err != nil {
		return err
	}
	return d.append(ctx, len(d.records), []events.Record{r})
}
