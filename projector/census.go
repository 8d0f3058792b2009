package projector

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// LiveTasks calls use with how many tasks of a workflow are in a state that is not an end, from memory. States without tasks are left out.
func (p *Partition) LiveTasks(use func(workflow string, state events.TaskState, n int64)) {
	for _, c := range p.view.Load().meta.Live {
		use(c.name, events.TaskState(c.of), c.n)
	}
}

// Reading calls read unless the store is closed, and the store is not closed meanwhile. read looks up no tasks.
func Reading(s *Store, read func()) {
	s.open.RLock()
	defer s.open.RUnlock()
	if !s.closed {
		read()
	}
}

// SubmittedTask says where a task is, and when it was accepted.
type SubmittedTask struct {
	Partition int32
	ID        string
	At        events.Instant
}

// Oldest returns up to limit tasks in a state that are in wanted partitions, in the order of their acceptance. It looks at no more than MaxRows
// tasks.
func Oldest(s *Store, state events.TaskState, limit int, wanted func(partition int32) bool) (list []SubmittedTask, err error) {
	Reading(s, func() { list, err = oldest(s, state, limit, wanted) })
	return list, err
}

func oldest(s *Store, state events.TaskState, limit int, wanted func(int32) bool) (list []SubmittedTask, err error) {
	prefix := listPrefix(nil, listState, string(state))
	it, err := s.iterate(prefix, prefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	ok := it.Last() // the newest come first
	for left := MaxRows; ok && left > 0 && len(list) < limit; left-- {
		suffix := it.Key()[len(prefix):]
		id, partition, valid := readSuffix(suffix)
		if !valid {
			return nil, closeFailed(fmt.Errorf("%w: list row %x", ErrDamaged, suffix), it)
		}
		if wanted(partition) {
			list = append(list, SubmittedTask{partition, id, events.Instant(readInverted(suffix))})
		}
		ok = it.Prev()
	}
	return list, closeIter(it)
}
