package main

import (
	"cmp"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// epoch is one ownership of a partition.
type epoch struct {
	Epoch string `json:"epoch"`
	Owner string `json:"owner"`
	// Claimed and ClaimOffset are the time and offset of the claim; First and Last are those of the accepted facts
	// after it.
	Claimed     events.Instant `json:"claimed_at"`
	ClaimOffset int64          `json:"claim_offset"`
	Facts       int            `json:"facts"`
	First       events.Instant `json:"first_at,omitzero"`
	FirstOffset int64          `json:"first_offset,omitzero"`
	Last        events.Instant `json:"last_at,omitzero"`
	LastOffset  int64          `json:"last_offset,omitzero"`
	// Void counts the records of the epoch that every reader skips; Late counts those that come after the next epoch's claim.
	Void int `json:"void"`
	Late int `json:"late"`
}

// tenure is all epochs of one partition.
type tenure struct {
	Partition int32    `json:"partition"`
	Epochs    []*epoch `json:"epochs"`
}

// ownership is the section of the summary about who owned what, and how long a partition had no owner.
type ownership struct {
	// Owners counts the epochs of each node.
	Owners map[string]int `json:"owners"`
	// Late counts the void records of an epoch after the next claim, which a deposed owner wrote.
	Late int `json:"late_records"`
	// Gaps are the times from the last fact of an epoch to the first of the next, for all changes, including those
	// where nothing was waiting and those where the owner left by itself.
	Gaps figures `json:"gaps"`
	// Partitions is set with --epochs only.
	Partitions []*tenure `json:"partitions,omitempty"`
}

// claim begins an epoch.
func (t *tenure) claim(f *events.Fact, r *events.Record) {
	c := f.Body.(*events.PartitionClaimed)
	t.Epochs = append(t.Epochs, &epoch{
		Epoch: events.Epoch{N: uint64(len(t.Epochs)) + 1, ID: c.ID}.String(), Owner: c.Owner, Claimed: f.Time, ClaimOffset: r.Offset,
	})
}

// count counts a record for its epoch.
func (t *tenure) count(f *events.Fact, r *events.Record, accepted bool) {
	name := f.Epoch.String()
	i := slices.IndexFunc(t.Epochs, func(e *epoch) bool { return e.Epoch == name })
	if i < 0 {
		return
	}
	e := t.Epochs[i]
	if !accepted {
		e.Void++
		if i < len(t.Epochs)-1 {
			e.Late++
		}
		return
	}
	if e.Facts == 0 {
		e.First, e.FirstOffset = f.Time, r.Offset
	}
	e.Facts++
	e.Last, e.LastOffset = f.Time, r.Offset
}

// ownership sums up.
func (b *logBook) ownership() ownership {
	o := ownership{Owners: map[string]int{}}
	var gaps []float64
	for _, t := range b.tenures {
		for i, e := range t.Epochs {
			o.Owners[e.Owner]++
			o.Late += e.Late
			if i == 0 {
				continue
			}
			// An epoch without facts is as long as its claim.
			began, ended := cmp.Or(e.First, e.Claimed), cmp.Or(t.Epochs[i-1].Last, t.Epochs[i-1].Claimed)
			gaps = append(gaps, began.Sub(ended).Seconds()*1000)
		}
	}
	o.Gaps = figuresOf(gaps)
	return o
}
