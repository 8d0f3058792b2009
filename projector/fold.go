package projector

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// FoldEvery is how many records Fold takes between two commits. Fewer make the batches' own cost felt, more hold more
// changed tasks in memory.
const FoldEvery = 2000

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
	// Evict drops from memory what was committed, so that a long log fits. State's loader must read what Commit wrote.
	Evict bool
}

// Fold folds records into a state, by the one fold, and commits what changed every so often and at the end. It serves
// the rebuild, followers, `state hash` and `verify`. After an error, State is of no use, and what was committed before
// is whole.
//
// No owner has planned what it folds, so live tasks come out as unplanned.
func Fold(ctx context.Context, f Folding) error {
	if f.Every <= 0 {
		f.Every = FoldEvery
	}
	var last Anchor
	pending := 0
	err := f.Read(func(r events.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.apply(&r); err != nil {
			return err
		}
		last = AnchorOf(f.TopicID, &r)
		if pending++; pending < f.Every {
			return nil
		}
		pending = 0
		return f.flush(last)
	})
	if err != nil || pending == 0 {
		return err
	}
	return f.flush(last)
}

func (f *Folding) apply(r *events.Record) error {
	if r.Control { // no fact, but it takes an offset
		f.State.Next = max(f.State.Next, r.Offset+1)
		return nil
	}
	fact, err := events.DecodeFact(r)
	if err != nil {
		return fmt.Errorf("decode a fact: %w", err)
	}
	_, err = f.State.Apply(fact, r.Offset)
	return err
}

func (f *Folding) flush(last Anchor) error {
	d, err := f.State.Flush(nil)
	if err != nil {
		return err
	}
	if f.Commit == nil {
		return nil
	}
	if err := f.Commit(d, last); err != nil {
		return err
	}
	if f.Evict {
		for i := range d.Tasks {
			f.State.Evict(d.Tasks[i].ID)
		}
	}
	return nil
}
