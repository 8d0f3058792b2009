package namespacecopy

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// target is a partition of the copy. Its state is built from the records that are written, as that of every reader.
type target struct {
	*copying
	state   *events.State
	source  string
	next    uint64
	records []events.Record
	bytes   int
	changed int
}

const (
	// batchBytes bounds what is sent together, and evictEvery how many tasks stay in memory until it is.
	batchBytes = 512 << 10
	evictEvery = 512
	// page is how many tasks are looked up at once.
	page = 256
)

// writeStates writes the log of each partition: a carry of the entities that live there.
func (c *copying) writeStates(ctx context.Context) error {
	targets, err := c.begin(ctx)
	if err != nil {
		return err
	}
	work, err := c.newWork()
	if err != nil {
		return err
	}
	done := int64(0)
	err = c.from.tasks(func(p *part, id string) error {
		//mutant:copied-task-goes-home
		t := targets[events.Home(id, c.Partitions)]
		if err := t.carryTask(ctx, p, id); err != nil {
			return err
		}
		if done++; done%100_000 == 0 {
			c.say("%d of %d tasks are copied", done, c.result.Tasks)
		}
		return work.take(ctx, p, id)
	})
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := t.end(ctx); err != nil {
			return err
		}
	}
	c.say("%d tasks are copied, %d of which have not ended", c.result.Tasks, c.result.Live)
	return work.flush(ctx)
}

// begin writes the partitions, and all entities that are not tasks.
func (c *copying) begin(ctx context.Context) ([]*target, error) {
	counts := make([]int64, c.Partitions)
	if err := c.from.tasks(func(_ *part, id string) error { counts[events.Home(id, c.Partitions)]++; return nil }); err != nil {
		return nil, err
	}
	entities, err := c.from.entities()
	if err != nil {
		return nil, err
	}
	c.result.Entities = len(entities)
	targets := make([]*target, c.Partitions)
	for n := range c.Partitions {
		state, err := events.CopiedPartition(c.from.partitions(), events.CopyTarget{Partition: n, Partitions: c.Partitions, Epoch: c.epoch})
		if err != nil {
			return nil, err
		}
		if state.Time == 0 { // nobody has ever claimed a partition
			state.Time = events.At(c.made)
		}
		//mutant:copied-tasks-are-counted
		state.Tasks = counts[n]
		c.result.Tasks += counts[n]
		targets[n] = &target{copying: c, state: events.NewState(n, nil), source: sourceOf(c.To.Namespace)}
		if err := targets[n].begin(ctx, &state, entities); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

func (t *target) begin(ctx context.Context, p *events.PartitionState, entities []events.CopiedEntity) error {
	var here []events.CopiedEntity
	for _, e := range entities {
		//mutant:copied-entity-goes-home
		if e.Home == "" || events.Home(e.Home, t.Partitions) == p.Partition {
			here = append(here, e)
		}
	}
	f, err := events.BeginCopied(p, len(here))
	if err != nil {
		return err
	}
	t.next = f.Sequence
	if err := t.add(ctx, f); err != nil {
		return err
	}
	for _, e := range here {
		if err := t.carry(ctx, "", e.Records); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) carry(ctx context.Context, task string, records []events.EntityCarried) error {
	for i := range records {
		f := &events.Fact{Epoch: t.state.Partition.Epoch, Sequence: t.next, Time: t.state.Partition.Time, Task: task, Body: &records[i]}
		f.Cause = t.cause()
		if err := t.add(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// cause is the fact before.
func (t *target) cause() events.Cause {
	return events.CauseFact(events.Position{Epoch: t.state.Partition.Epoch, Sequence: t.next - 1})
}

func (t *target) carryTask(ctx context.Context, p *part, id string) error {
	records, err := events.CopiedTask(p.state, id)
	if err != nil {
		return fmt.Errorf("partition %d of %s: %w", p.number, t.from.name, err)
	}
	if task, err := p.state.Task(id); err == nil && task != nil {
		if err := t.from.checkKey(task); err != nil {
			return err
		}
	}
	return t.carry(ctx, id, records)
}

// end completes the carry with the hash of the state that its readers have.
func (t *target) end(ctx context.Context) error {
	body, err := events.EndCopied(t.state)
	if err != nil {
		return err
	}
	p := &t.state.Partition
	f := &events.Fact{Epoch: p.Epoch, Sequence: t.next, Time: p.Time, Cause: t.cause(), Body: body}
	if err := t.add(ctx, f); err != nil {
		return err
	}
	return t.flush(ctx)
}

// add folds a fact and appends it.
func (t *target) add(ctx context.Context, f *events.Fact) error {
	r, err := events.EncodeFact(f, t.state.Partition.Partition, t.source)
	if err != nil {
		return err
	}
	if _, err := t.state.Apply(f, t.state.Next); err != nil {
		return err
	}
	t.next++
	r.Topic, r.Partition = t.To.topics().Events(), t.state.Partition.Partition
	t.records, t.bytes = append(t.records, r), t.bytes+r.Size()
	if f.Task != "" {
		t.changed++
	}
	if t.bytes < batchBytes && t.changed < evictEvery {
		return nil
	}
	return t.flush(ctx)
}

// flush sends the records, and drops the tasks from memory: nothing follows about them.
func (t *target) flush(ctx context.Context) error {
	if len(t.records) == 0 {
		return nil
	}
	at := t.state.Next - int64(len(t.records))
	offsets, err := t.logs.Append(ctx, t.records...)
	if err != nil {
		return fmt.Errorf("write to %s partition %d: %w", t.records[0].Topic, t.records[0].Partition, err)
	}
	for i, o := range offsets {
		if o != at+int64(i) {
			return fmt.Errorf("a record of %s partition %d has offset %d, and must have %d: somebody else writes there; stop all nodes of the new namespace", t.records[i].Topic, t.records[i].Partition, o, at+int64(i))
		}
	}
	t.records, t.bytes, t.changed = nil, 0, 0
	d, err := t.state.Flush(nil)
	if err != nil {
		return err
	}
	for i := range d.Tasks {
		t.state.Evict(d.Tasks[i].ID)
	}
	return nil
}

// entities returns all entities that are not tasks, in the order of a carry.
func (s *source) entities() (all []events.CopiedEntity, err error) {
	for _, p := range s.parts {
		list, err := events.CopiedEntities(p.state)
		if err != nil {
			return nil, fmt.Errorf("partition %d of %s: %w", p.number, s.name, err)
		}
		all = append(all, list...)
	}
	return events.SortCopied(all), nil
}

// tasks calls use for each task of all partitions, in the order of the bytes of their IDs.
func (s *source) tasks(use func(p *part, id string) error) error {
	cursors := make([]cursor, len(s.parts))
	for i, p := range s.parts {
		cursors[i] = cursor{part: p}
	}
	for {
		var first *cursor
		for i := range cursors {
			c := &cursors[i]
			if err := c.fill(); err != nil {
				return err
			}
			if len(c.ids) > 0 && (first == nil || c.ids[0] < first.ids[0]) {
				first = c
			}
		}
		if first == nil {
			return nil
		}
		id := first.ids[0]
		first.ids = first.ids[1:]
		if err := use(first.part, id); err != nil {
			return err
		}
	}
}

// cursor walks over the tasks of a partition.
type cursor struct {
	*part
	ids   []string
	after string
	ended bool
}

func (c *cursor) fill() (err error) {
	if len(c.ids) > 0 || c.ended {
		return nil
	}
	if c.ids, err = c.stored.Tasks(c.after, page); err != nil {
		return err
	}
	if c.ended = len(c.ids) < page; len(c.ids) > 0 {
		c.after = c.ids[len(c.ids)-1]
	}
	return nil
}
