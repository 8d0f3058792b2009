package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// maxStopped bounds the stopped partitions that a heartbeat lists.
	maxStopped = 100
	// stoppedDetail bounds what a heartbeat says of each, in bytes.
	stoppedDetail = 500
)

// stopped returns the partitions that this node should own and cannot go on with. tooOld says why this build may own nothing, or is nil.
func (o *owners) stopped(tooOld error) (list []events.StoppedPartition) {
	for p, s := range o.shells {
		status, err := s.Status()
		if err == nil {
			err = tooOld
		}
		if err == nil || !status.Assigned || len(list) == maxStopped {
			continue
		}
		list = append(list, events.StoppedPartition{Partition: int32(p), Reason: stopReason(err), Detail: events.Clip(withoutPartition(err, int32(p)), stoppedDetail)})
	}
	return list
}

// withoutPartition returns the text of an error for somebody who names the partition.
func withoutPartition(err error, p int32) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("partition %d: ", p))
}

// stopped returns the live node that says that a partition stopped there, and why; "" if none does.
func (l *liveness) stopped(partition int32) (node string, x events.StoppedPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Kind != events.PresenceNode || time.Since(b.at) > silentAfter || node != "" && b.Instance > node {
			continue
		}
		if i := slices.IndexFunc(b.Stopped, func(s events.StoppedPartition) bool { return s.Partition == partition }); i >= 0 {
			node, x = b.Instance, b.Stopped[i]
		}
	}
	return node, x
}
