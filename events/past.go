package events

// Past folds the facts of one task without the rest of its partition, with the same fold. It shows the task as it was after each fact.
//
// Settings are not among the facts of a task, so Past uses the defaults. RemindAt depends on them, and after a TimeCorrected the instants at which
// requests in doubt are over do too. A request that was held before the ID was that of a child which was never accepted, and is forgotten, is not
// among them either: Past shows such a request only once it is judged.
type Past struct {
	state *State
	task  string
}

// NewPast returns the fold before the first fact of the task.
func NewPast(task string) *Past {
	s := NewState(0, nil)
	s.Partition.Settings = DefaultSettings()
	return &Past{s, task}
}

// Apply folds the next accepted fact of the task; void records must be left out. The first fact must be the first one of the task, or one about
// a request that came before the task; in a log that was cut, the first one that carries the task. An error means that the facts are not those of one task from its beginning.
func (p *Past) Apply(f *Fact) error {
	s := p.state
	s.Partition.Epoch = f.Epoch // the positions in the task name it
	switch b := f.Body.(type) {
	case *TimeCorrected:
		s.Partition.Correcting = b.To // by the fact of the partition that came before
	case *EntityCarried:
		if p.Task() == nil {
			return loadCarried(s, f.Task, b)
		}
		return nil
	}
	return s.fold(f)
}

// Task returns the task, nil before it was submitted. It is valid until the next Apply, and the caller must not change it.
func (p *Past) Task() *Task { return p.state.tasks[p.task] }
