package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// foldEvery is how many records are folded between two commits to the shelf.
const foldEvery = 2000

// foldKeep is how many tasks stay in memory across a commit. Live tasks are needed again soon.
const foldKeep = 20_000

// folding folds a partition by the engine's own fold, and compares the recorded and stored hashes with it.
type folding struct {
	*partition
	state   *events.State
	shelf   Shelf
	stored  []Stored
	pending int
	last    *events.Record
	stopped bool
}

func newFolding(p *partition) *folding {
	f := &folding{partition: p}
	var load events.Loader
	if p.cfg.Shelf != nil {
		f.shelf = p.cfg.Shelf(p.number)
		load = f.shelf.Load
	}
	f.state = events.NewState(p.number, load)
	if p.cfg.MaxLevel > 0 {
		f.state.SetLevel(p.cfg.MaxLevel)
	}
	for _, s := range p.cfg.Stored {
		if s.Partition == p.number && s.Damaged == "" {
			f.stored = append(f.stored, s)
		}
	}
	slices.SortFunc(f.stored, func(a, b Stored) int { return cmp.Compare(a.Offset, b.Offset) })
	return f
}

// apply folds a fact. The fate is 0 once the fold has stopped. An error comes from the shelf; a fact that the fold
// refuses is a finding.
func (f *folding) apply(fact *events.Fact, r *events.Record) (events.Fate, error) {
	if f.stopped {
		return 0, nil
	}
	if err := f.compare(r.Offset); err != nil {
		return 0, err
	}
	fate, err := f.state.Apply(fact, r.Offset)
	if err != nil {
		f.book.add(Finding{Check: CheckFold, Kind: "refused", Place: f.place(r.Offset), Task: fact.Task, What: "the engine's fold stops here: " + err.Error()})
		f.stopped = true
		return 0, nil
	}
	return fate, f.done(r)
}

// control counts a transaction marker, which occupies an offset.
func (f *folding) control(r *events.Record) error {
	if f.stopped {
		return nil
	}
	if err := f.compare(r.Offset); err != nil {
		return err
	}
	f.state.Next = max(f.state.Next, r.Offset+1)
	return f.done(r)
}

func (f *folding) done(r *events.Record) error {
	f.last = r
	if f.pending++; f.pending < foldEvery {
		return nil
	}
	return f.flush()
}

func (f *folding) flush() error {
	f.pending = 0
	d, err := f.state.Flush(nil)
	if err != nil || f.shelf == nil {
		return err
	}
	if err := f.shelf.Commit(d, f.last); err != nil {
		return err
	}
	many := f.state.InMemory() > foldKeep
	for i := range d.Tasks {
		if many || d.Tasks[i].Keys.State.Ended() {
			f.state.Evict(d.Tasks[i].ID)
		}
	}
	if !many {
		return nil
	}
	var ids []string
	f.state.Loaded(func(t *events.Task) bool { ids = append(ids, t.ID); return true })
	for _, id := range ids {
		f.state.Evict(id)
	}
	return nil
}

// compare compares the stored states whose next offset is the given one.
func (f *folding) compare(offset int64) error {
	for len(f.stored) > 0 && f.stored[0].Offset <= offset {
		s := f.stored[0]
		f.stored = f.stored[1:]
		if s.Offset < f.state.Next {
			continue // only before the first record
		}
		sum, err := f.state.Hash()
		if err != nil {
			return err
		}
		f.count.Stores++
		if s.Hash != sum {
			f.wrong(CheckFold, "stored", f.place(s.Offset), "%s has the state hash %s before this offset, but the fold of the log has %s (INV2)", s.Where, s.Hash, sum)
		}
		if s.Rows != nil && *s.Rows != sum {
			f.wrong(CheckFold, "rows", f.place(s.Offset), "the rows of %s hash to %s, but the fold of the log before this offset has %s (INV2)", s.Where, *s.Rows, sum)
		}
	}
	return nil
}

// finish compares the remaining states and returns the hash at the end.
func (f *folding) finish(end int64) (events.Hash, error) {
	for _, s := range f.stored {
		switch {
		case f.stopped:
			f.book.cannot(CheckFold, "%s: the fold of partition %d stopped before offset %d", s.Where, f.number, s.Offset)
		case s.Offset > end:
			f.wrong(CheckFold, "stored", f.place(s.Offset), "%s holds the state before this offset, but the log ends at %d", s.Where, end)
		}
	}
	if f.stopped {
		return events.Hash{}, nil
	}
	if err := f.compare(end); err != nil {
		return events.Hash{}, err
	}
	return f.state.Hash()
}

// HashEntity returns the hash of one entity, by events/FORMAT.md. The hash of a store is the sum over its rows.
func HashEntity(kind events.Kind, id string, encoding []byte) events.Hash {
	d := sha256.New()
	for _, s := range []string{string(kind), "\x00", id, "\x00"} {
		_, _ = d.Write([]byte(s))
	}
	_, _ = d.Write(encoding)
	sum := d.Sum(nil)
	return events.Hash{Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:16])}
}
