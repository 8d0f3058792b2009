package projector

import "github.com/sagalog/sagalog/events"

// Info describes a partition as of its last commit. The caller must not change the maps.
type Info struct {
	Partition int32
	// Exists is false if nothing was ever committed.
	Exists bool
	Owner  string
	Epoch  events.Epoch
	Since  events.Instant
	// Next is the offset of the first record that is not folded.
	Next      int64
	StateHash events.Hash
	Anchor    Anchor
	// Live is the number of tasks that have not ended, Due of those that wait for an instant.
	Live, Due int64
	States    map[events.TaskState]int64
	// Ready is the number of steps in each agent's queue.
	Ready map[string]int64
	// Inputs holds how far each input topic has been judged, which is what a token waits for.
	Inputs    map[events.Input]events.Passed
	Watermark events.Position
}

// Info describes the partition, from memory.
func (p *Partition) Info() (Info, error) {
	v := p.view.Load()
	e, err := v.entity()
	if err != nil {
		return Info{}, err
	}
	return Info{
		Partition: p.number, Exists: v.exists, Owner: e.Owner, Epoch: e.Epoch, Since: e.Since,
		Next: v.meta.Next, StateHash: v.meta.Sum, Anchor: v.meta.Anchor, Live: v.meta.live(), Due: v.meta.Due,
		States: v.states(), Ready: v.ready(), Inputs: e.Inputs, Watermark: e.Watermark,
	}, nil
}

// Claim returns who owns the partition, in which epoch, and since when, from memory.
func (p *Partition) Claim() (owner string, epoch events.Epoch, since events.Instant, err error) {
	e, err := p.view.Load().entity()
	return e.Owner, e.Epoch, e.Since, err
}

// Next returns the offset of the first record that is not folded.
func (p *Partition) Next() int64 { return p.view.Load().meta.Next }

// PartitionInfo is Partition(partition).Info().
func (s *Store) PartitionInfo(partition int32) (Info, error) { return s.Partition(partition).Info() }

// Partitions returns the numbers of the partitions that have rows, in order.
func (s *Store) Partitions() []int32 {
	var list []int32
	for _, p := range s.known() {
		if p.view.Load().exists {
			list = append(list, p.number)
		}
	}
	return list
}

// States counts the tasks of all partitions by state, from memory.
func (s *Store) States() map[events.TaskState]int64 {
	sum := map[events.TaskState]int64{}
	for _, p := range s.known() {
		for _, c := range p.view.Load().meta.States {
			sum[events.TaskState(c.name)] += c.n
		}
	}
	return sum
}

// States counts the partition's tasks by state, from memory.
func (p *Partition) States() map[events.TaskState]int64 { return p.view.Load().states() }

// Get returns a task by its partition (see events.Home) and its ID; ok is false if it is not known.
func (s *Store) Get(partition int32, id string) (task *events.Task, ok bool, err error) {
	return s.Partition(partition).Task(id)
}

// HistoryOffsets returns the offsets of a task's facts greater than after, in order; -1 means all of them.
func (s *Store) HistoryOffsets(partition int32, id string, after int64, limit int) (offsets []int64, err error) {
	limit = bounded(limit)
	_, err = lookup(s.db, historyKey(nil, partition, id), func(value []byte) error {
		return eachOffset(value, func(offset int64) bool {
			if offset > after && len(offsets) < limit {
				offsets = append(offsets, offset)
			}
			return len(offsets) < limit
		})
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}
