package projector

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// FoldEvery is how many records Fold takes between two commits. Most tasks live shorter, so that each is encoded and
// written once or twice. More would hold more changed tasks in memory, some KiB each.
const FoldEvery = 8000

// FoldBytes is after how many bytes of facts Fold commits all the same: half of what a memtable takes in one piece, and a
// bound on the memory that large inputs and outputs take.
const FoldBytes = 8 << 20

// FoldTasks is how many tasks a Folder that evicts leaves in memory, for the facts of them that follow soon.
const FoldTasks = 8192

// Folding is what Fold needs.
type Folding struct {
	// State is where to begin; it is Fold's until Fold returns.
	State *events.State
	// TopicID goes into the anchors.
	TopicID TopicID
	// Read calls yield with the records of the partition from State.Next on, in order, and returns when they end or
	// with the first error of yield. It knows the broker; Fold does not.
	Read func(yield func(events.Record) error) error
	// Commit takes what changed. It may write it to a store, or keep only the sum. nil drops it.
	Commit func(*events.Delta, Anchor) error
	// Every is the number of records between two commits; zero means FoldEvery.
	Every int
	// Evict drops from memory the tasks that are committed and ended, and all that are committed where more than
	// FoldTasks are left, so that a long log fits. State's loader must read what Commit wrote.
	Evict bool
}

// Fold folds records into a state, by the one fold, and commits what changed every so often and at the end. It serves
// the rebuild, followers, `state hash` and `verify`. After an error, State is of no use, and what was committed before
// is whole.
//
// No owner has planned what it folds, so live tasks come out as unplanned.
func Fold(ctx context.Context, f Folding) error {
	folder := NewFolder(f)
	err := f.Read(func(r events.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := folder.Take(&r); err != nil {
			return err
		}
		if !folder.Full() {
			return nil
		}
		return folder.Flush()
	})
	if err != nil {
		return err
	}
	return folder.Flush()
}

// Folder folds the records of one partition as they come, for a caller that knows itself when to commit. It is for one
// goroutine.
type Folder struct {
	f       Folding
	reader  *events.FactReader
	last    events.Record
	pending int
	bytes   int
}

// NewFolder returns a Folder. It does not need Read.
func NewFolder(f Folding) *Folder {
	if f.Every <= 0 {
		f.Every = FoldEvery
	}
	return &Folder{f: f, reader: f.State.Reader()}
}

// State returns the state as of the last record taken.
func (f *Folder) State() *events.State { return f.f.State }

// Pending returns how many records were taken since the last Flush.
func (f *Folder) Pending() int { return f.pending }

// Full says that Flush should not wait any longer.
func (f *Folder) Full() bool { return f.pending >= f.f.Every || f.bytes >= FoldBytes }

// Take folds a record. After an error the folder is of no use.
func (f *Folder) Take(r *events.Record) error {
	state := f.f.State
	if r.Control { // no fact, but it takes an offset
		state.Next = max(state.Next, r.Offset+1)
	} else {
		fact, err := f.reader.Decode(r)
		if err != nil {
			return fmt.Errorf("decode a fact: %w", err)
		}
		if _, err := state.Apply(fact, r.Offset); err != nil {
			return err
		}
	}
	f.last = *r
	f.pending++
	f.bytes += len(r.Value)
	return nil
}

// Flush commits what the records since the last Flush changed, with the last of them as the anchor. Without any it does
// nothing.
func (f *Folder) Flush() error {
	if f.pending == 0 {
		return nil
	}
	d, err := f.f.State.Flush(nil)
	if err != nil {
		return err
	}
	f.pending, f.bytes = 0, 0
	if f.f.Commit == nil {
		return nil
	}
	if err := f.f.Commit(d, AnchorOf(f.f.TopicID, &f.last)); err != nil {
		return err
	}
	if f.f.Evict {
		f.evict(d)
	}
	return nil
}

func (f *Folder) evict(d *events.Delta) {
	state := f.f.State
	for i := range d.Tasks {
		if row := &d.Tasks[i]; row.Encoding == nil || row.Keys.State.Ended() {
			state.Evict(row.ID)
		}
	}
	if state.InMemory() <= FoldTasks {
		return
	}
	var ids []string
	state.Loaded(func(t *events.Task) bool { ids = append(ids, t.ID); return true })
	for _, id := range ids {
		state.Evict(id)
	}
}
