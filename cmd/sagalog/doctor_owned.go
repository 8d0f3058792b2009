package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

// ownedBy is the key under which the heartbeat of a node lists the partitions that it owns.
const ownedBy = "events"

// silentNamed bounds how many nodes without heartbeats a finding names: those that were heard from last.
const silentNamed = 3

// unownedFindings says how many partitions no live node owns, and which silent nodes owned some of them. Partitions that have stopped at a live node
// have findings that say more. It is a warning, because a take-over that is under way looks the same for some seconds.
func unownedFindings(made int32, live, beats []events.Presence) []doctor.Finding {
	covered := make([]bool, made)
	cover := func(p int32) {
		if p >= 0 && p < made {
			covered[p] = true
		}
	}
	for i := range live {
		for _, p := range live[i].Partitions[ownedBy] {
			cover(p)
		}
		for _, x := range live[i].Stopped {
			cover(x.Partition)
		}
	}
	free := func(p int32) bool { return p >= 0 && p < made && !covered[p] }
	var count int
	for p := range made {
		if free(p) {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	f := doctor.Finding{Check: checkNodes, Status: doctor.StatusWarn, What: fmt.Sprintf("%d of %d partitions are owned by no live node: nothing is decided in them, and their inputs wait", count, made),
		Remedy: "if it lasts, start a node with the role owner: sagalog serve"}
	last := slices.SortedFunc(slices.Values(beats), func(a, b events.Presence) int { return cmp.Compare(b.SeenAt, a.SeenAt) })
	named := 0
	for i := range last {
		b := &last[i]
		if named < silentNamed && slices.ContainsFunc(b.Partitions[ownedBy], free) {
			named++
			f.What += fmt.Sprintf("; node %s owned some of them, and was last heard from at %s", b.Instance, b.SeenAt)
			f.Remedy = "if it lasts, restart that node with the same flags, or start another one with the role owner: sagalog serve"
		}
	}
	return []doctor.Finding{f}
}
