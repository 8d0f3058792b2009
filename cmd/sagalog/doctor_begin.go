package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

// begun says where the partitions of the log begin and end.
type begun struct {
	topic        string
	starts, ends map[int32]int64
}

const (
	// mostBegins is how many faults of a kind are named.
	mostBegins  = 5
	beginRemedy = "nodes whose state directory has these facts go on, but nobody can fold the log from its beginning any more. Restore the topic from a copy, and let only sagalog delete its records: " +
		"cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 (`sagalog namespace set keep_log=720h` says how long facts are kept)"
)

// beginnings finds partitions of the log whose first facts were deleted by something else than a cut: a log begins with its first record, or with
// a carry.
func beginnings(ctx context.Context, cluster *kafka.Cluster, b begun) (list []doctor.Finding) {
	for _, p := range slices.Sorted(maps.Keys(b.starts)) {
		start := b.starts[p]
		if start == 0 {
			continue
		}
		what := "is empty, although it had records before"
		if b.ends[p] > start {
			r, err := cluster.ReadAt(ctx, b.topic, p, start)
			if errors.As(err, new(*kafka.OutOfRangeError)) {
				continue // it was cut a moment ago
			}
			if err != nil {
				return list // other checks report it
			}
			f, err := events.DecodeFact(&r)
			if err != nil {
				what = "begins with a record that cannot be read: " + err.Error()
			} else if _, ok := f.Body.(*events.CarryBegun); ok {
				continue
			} else {
				what = "begins with " + string(f.Body.Name()) + ", and a log that was cut begins with CarryBegun"
			}
		}
		list = append(list, doctor.Finding{Check: checkLog, Status: doctor.StatusFail,
			What: fmt.Sprintf("the facts of %s/%d below offset %d are gone, and no cut explains that: the log %s", b.topic, p, start, what), Remedy: beginRemedy})
		if len(list) == mostBegins {
			break
		}
	}
	return list
}
