package events

// Run is a run of accepted facts at contiguous offsets. From the runs, a later owner finds the facts whose effects are not
// acknowledged without folding the log again. They are not part of the state hash, since offsets differ between copies of a
// log.
type Run struct {
	Epoch    Epoch  `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	Offset   int64  `json:"offset"`
	Count    int64  `json:"count"`
}

// runs holds the runs from the oldest fact on whose effects may be owed, in the order of the log.
type runs []Run

// add records an accepted fact at the next offset. epoch is a copy of f's epoch that does not share bytes with its record.
func (all *runs) add(f *Fact, epoch Epoch, offset int64) {
	if n := len(*all); n > 0 {
		last := &(*all)[n-1]
		if last.Epoch == f.Epoch && last.Sequence+uint64(last.Count) == f.Sequence && last.Offset+last.Count == offset {
			last.Count++
			return
		}
	}
	*all = append(*all, Run{Epoch: epoch, Sequence: f.Sequence, Offset: offset, Count: 1})
}

// dropBefore drops the facts before a watermark. The fact at the watermark stays, as the place to continue reading from.
func (all *runs) dropBefore(p Position) {
	keep := (*all)[:0]
	for _, r := range *all {
		end := Position{r.Epoch, r.Sequence + uint64(r.Count) - 1}
		if end.Before(p) {
			continue
		}
		if r.Epoch == p.Epoch && r.Sequence < p.Sequence {
			drop := p.Sequence - r.Sequence
			r.Sequence, r.Offset, r.Count = p.Sequence, r.Offset+int64(drop), r.Count-int64(drop)
		}
		keep = append(keep, r)
	}
	*all = keep
}

func (all runs) accepted(offset int64) bool {
	for _, r := range all {
		if offset >= r.Offset && offset < r.Offset+r.Count {
			return true
		}
	}
	return false
}

// after returns the offset of the first fact after a position, or end.
func (all runs) after(p Position, end int64) int64 {
	for _, r := range all {
		last := Position{r.Epoch, r.Sequence + uint64(r.Count) - 1}
		switch first := (Position{r.Epoch, r.Sequence}); {
		case p.IsZero() || p.Before(first):
			return r.Offset
		case p.Before(last):
			return r.Offset + int64(p.Sequence-r.Sequence) + 1
		}
	}
	return end
}
