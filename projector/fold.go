package projector

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// FoldEvery is the number of records between two commits of Fold. Most tasks span fewer records, so that each is encoded and
// written once or twice. A larger number would hold more changed tasks in memory, at a few KiB each.
const FoldEvery = 8000

// FoldBytes is the number of bytes of facts after which Fold commits early: half of what a memtable accepts in one batch, and
// a bound on the memory of large inputs and outputs.
const FoldBytes = 8 << 20

// FoldTasks is the number of tasks that an evicting Folder keeps in memory, because more facts about them are likely to follow
// soon.
const FoldTasks = 8192

// Folding is what Fold needs.
type Folding struct {
	// State is the state to begin with. Fold owns it until it returns.
	State *events.State
	// TopicID goes into the anchors.
	TopicID TopicID
	// Read calls yield with the partition's records from State.Next on, in order. It returns when they end, or with the first
	// error of yield. Read knows the broker; Fold does not.
	Read func(yield func(events.Record) error) error
	// Commit receives each delta. It may write it to a store or keep only the sum. If nil, deltas are dropped.
	Commit func(*events.Delta, Anchor) error
	// Every is the number of records between two commits; zero means FoldEvery.
	Every int
	// Evict drops committed tasks that have ended from memory, and all committed tasks if more than FoldTasks are left, so
	// that a long log fits. State's loader must read what Commit wrote.
	Evict bool
}

// Fold folds records into a state and commits the changes at intervals and at the end. The rebuild, followers, `state hash`
// and `verify` use it. After an error State is unusable, but everything committed before is consistent.
//
// Live tasks come out as unplanned, since no owner has planned what Fold folds.
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

// Folder folds the records of one partition as they arrive, for a caller that decides when to commit. It is not safe for
// concurrent use.
type Folder struct {
	f       Folding
	reader  *events.FactReader
	last    events.Record
	pending int
	bytes   int
	// claimed says that the owner of the partition has changed since the last Flush.
	claimed bool
}

// NewFolder returns a Folder. It ignores Read.
func NewFolder(f Folding) *Folder {
	if f.Every <= 0 {
		f.Every = FoldEvery
	}
	return &Folder{f: f, reader: f.State.Reader()}
}

// State returns the state as of the last record taken.
func (f *Folder) State() *events.State { return f.f.State }

// Pending returns the number of records since the last Flush.
func (f *Folder) Pending() int { return f.pending }

// Full reports whether it is time to Flush. That includes a new owner, so that whoever watches commits sees each owner.
func (f *Folder) Full() bool { return f.claimed || f.pending >= f.f.Every || f.bytes >= FoldBytes }

// Take folds a record. After an error the Folder is unusable.
func (f *Folder) Take(r *events.Record) error {
	state := f.f.State
	if r.Control { // a control record is no fact, but it occupies an offset
		state.Next = max(state.Next, r.Offset+1)
	} else {
		fact, err := f.reader.Decode(r)
		if err != nil {
			return fmt.Errorf("decode a fact: %w", err)
		}
		owner := state.Partition.Owner
		if _, err := state.Apply(fact, r.Offset); err != nil {
			return err
		}
		f.claimed = f.claimed || state.Partition.Owner != owner
	}
	f.last = *r
	f.pending++
	f.bytes += len(r.Value)
	return nil
}

// Flush commits the changes since the last Flush, with the last record as the anchor. Without new records it does nothing.
func (f *Folder) Flush() error {
	if f.pending == 0 {
		return nil
	}
	d, err := f.f.State.Flush(nil)
	if err != nil {
		return err
	}
	f.pending, f.bytes, f.claimed = 0, 0, false
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
	for i := range d.Parts {
		if row := &d.Parts[i]; row.Kind == events.KindDefinition {
			state.EvictDefinition(row.ID)
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
