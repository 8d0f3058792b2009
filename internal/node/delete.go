package node

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// Delete implements api.Deletions.
func (d *definitions) Delete(ctx context.Context, name string, version int) ([]int, error) {
	if err := d.begin(ctx); err != nil {
		return nil, noAnswer(err)
	}
	defer d.end()
	if err := d.ns.catalog.upToNow(ctx); err != nil {
		return nil, noAnswer(err)
	}
	list := d.ns.catalog.Versions(name)
	current, _ := d.ns.catalog.Catalog.Current(name)
	var deleted []int
	var records []events.Record
	tombstone := func(v *scheduler.Version) {
		r := scheduler.EncodeDeletion(v, events.Subject{ID: uuid.NewString(), Source: "/" + d.ns.topics.Namespace + "/workflows", Time: events.At(time.Now())})
		r.Topic = d.ns.topics.Definitions()
		records = append(records, r)
	}
	for i := range list {
		if version == 0 || list[i].Version == version {
			deleted = append(deleted, list[i].Version)
			if list[i].Version != current.Version {
				tombstone(&list[i])
			}
		}
	}
	if len(list) > 0 && (version == 0 || version == current.Version) {
		tombstone(&current) // last, so that no other version becomes current in between
	}
	if len(records) == 0 {
		return nil, nil
	}
	at, err := d.producer.ProduceSync(ctx, records...)
	if err != nil {
		return nil, noAnswer(fmt.Errorf("append the deletion: %w", err))
	}
	return deleted, noAnswer(d.ns.catalog.upTo(ctx, at[len(at)-1]+1))
}
