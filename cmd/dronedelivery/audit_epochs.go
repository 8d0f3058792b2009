package main

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// epoch is one ownership of a partition as the log tells it.
type epoch struct {
	Epoch string `json:"epoch"`
	Owner string `json:"owner"`
	// Claimed and ClaimOffset are those of the claim; First and Last those of the accepted facts behind it.
	Claimed     events.Instant `json:"claimed_at"`
	ClaimOffset int64          `json:"claim_offset"`
	Facts       int            `json:"facts"`
	First       events.Instant `json:"first_at,omitzero"`
	FirstOffset int64          `json:"first_offset,omitzero"`
	Last        events.Instant `json:"last_at,omitzero"`
	LastOffset  int64          `json:"last_offset,omitzero"`
	// Void are its records that every reader skips, Late those of them that lie behind the next epoch's claim.
	Void int `json:"void"`
	Late int `json:"late"`
}

// tenure is all epochs of one partition.
type tenure struct {
	Partition int32    `json:"partition"`
	Epochs    []*epoch `json:"epochs"`
}

// ownership is the section of the summary that tells who owned what, and how long nobody did.
type ownership struct {
	// Owners counts the epochs of each node.
	Owners map[string]int `json:"owners"`
	// Late counts the void records of an epoch that lie behind the next claim: a deposed owner wrote them.
	Late int `json:"late_records"`
	// Gaps are the times from the last fact of an epoch to the first of the next, of all changes: also those where
	// nothing was to be done, or the owner left by itself.
	Gaps figures `json:"gaps"`
	// Partitions are there with --epochs only.
	Partitions []*tenure `json:"partitions,omitempty"`
}

// claim begins an epoch.
func (r *reading) claim(f *events.Fact, rec *events.Record) {
	c := f.Body.(*events.PartitionClaimed)
	r.tenure.Epochs = append(r.tenure.Epochs, &epoch{
		Epoch: events.Epoch{N: r.rule.n, ID: r.rule.id}.String(), Owner: c.Owner, Claimed: f.Time, ClaimOffset: rec.Offset,
	})
	if by := writer(rec); by != c.Owner {
		r.fault("", fmt.Sprintf("the claim at offset %d is for node %q, and node %q wrote it", rec.Offset, c.Owner, by))
	}
}

// owned books a record that names an epoch, and checks that nobody but the epoch's owner wrote it, void ones included.
func (r *reading) owned(f *events.Fact, rec *events.Record) *epoch {
	name := f.Epoch.String()
	for i, e := range slices.Backward(r.tenure.Epochs) {
		if e.Epoch != name {
			continue
		}
		if by := writer(rec); by != e.Owner {
			r.fault(f.Task, fmt.Sprintf("the record at offset %d is of epoch %s, which node %q owned, and node %q wrote it", rec.Offset, name, e.Owner, by))
		}
		if i < len(r.tenure.Epochs)-1 {
			e.Late++
		}
		return e
	}
	r.fault(f.Task, fmt.Sprintf("the record at offset %d is of epoch %s, which nobody had yet", rec.Offset, name))
	return &epoch{}
}

// count books an accepted fact.
func (e *epoch) count(f *events.Fact, offset int64) {
	if e.Facts == 0 {
		e.First, e.FirstOffset = f.Time, offset
	}
	e.Facts++
	e.Last, e.LastOffset = f.Time, offset
}

// writer is the node that wrote a fact, the last segment of its ce_source.
func writer(rec *events.Record) string {
	source := rec.Header(events.HeaderSource)
	node, err := url.PathUnescape(source[strings.LastIndexByte(source, '/')+1:])
	if err != nil {
		return source
	}
	return node
}

// apart checks that the epochs of each partition follow each other: no accepted fact lies outside the stretch from its
// own claim to the next one.
func (b *logBook) apart() {
	for _, t := range b.tenures {
		for i, e := range t.Epochs {
			end := int64(math.MaxInt64)
			if i+1 < len(t.Epochs) {
				end = t.Epochs[i+1].ClaimOffset
			}
			if e.Facts > 0 && (e.FirstOffset < e.ClaimOffset || e.LastOffset > end) {
				b.faults = append(b.faults, disagreement{What: fmt.Sprintf("partition %d: epoch %s has facts from offset %d to %d, was claimed at %d and followed at %d",
					t.Partition, e.Epoch, e.FirstOffset, e.LastOffset, e.ClaimOffset, end)})
			}
		}
	}
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
			gaps = append(gaps, e.begun().Sub(t.Epochs[i-1].ended()).Seconds()*1000)
		}
	}
	o.Gaps = figuresOf(gaps)
	return o
}

// begun is the time of the first fact, that of the claim where there is none.
func (e *epoch) begun() events.Instant {
	if e.Facts == 0 {
		return e.Claimed
	}
	return e.First
}

// ended is the time of the last fact, that of the claim where there is none.
func (e *epoch) ended() events.Instant {
	if e.Facts == 0 {
		return e.Claimed
	}
	return e.Last
}
