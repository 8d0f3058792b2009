package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

// errUnable ends the membership of a node that cannot own some partition, while another member can own all.
var errUnable = errors.New("this node gives its partitions to others")

// asidePause is the minimum time that a node stays outside the group after it gave up its partitions. It doubles up to
// asidePauseMax, because all its partitions move each time.
const (
	asidePause    = giveUpAfter
	asidePauseMax = 5 * time.Minute
)

// unable returns the partitions that this node cannot own now: a leader has not answered it for that long, or owning ended with
// an error that another node may not have. A node publishes them in its heartbeat.
func (m *membership) unable(after time.Duration) (list []int32) {
	for p := range m.ns.partitions {
		if m.reach.unreached(p, after) || m.faulty(p) {
			list = append(list, p)
		}
	}
	return list
}

// faulty says whether the partition stopped here with an error that another node may not have. That counts for a pause after this node
// gave the partition up, and then this node tries again: the fault may be over.
func (m *membership) faulty(p int32) bool {
	status, err := m.owners.shells[p].Status()
	if err == nil || isEverywhere(err) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return status.Assigned || time.Now().Before(m.faultyUntil[p])
}

// isEverywhere says that what stopped a partition is in its topics, and stops it on each node.
func isEverywhere(err error) bool {
	if isOfStore(err) || errors.Is(err, projector.ErrRead) || errors.Is(err, events.ErrReaderTooOld) { // another build may read on
		return false
	}
	for _, of := range []error{supervisor.ErrInputLost, supervisor.ErrClosed, supervisor.ErrFold, supervisor.ErrPosition, ErrGap, ErrLog} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// remember makes the faults of partitions that are given up count for the pause.
func (m *membership) remember(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		if _, err := m.owners.shells[p].Status(); err != nil {
			m.faultyUntil[p] = time.Now().Add(m.pause)
		}
	}
}

// watchAble ends with errUnable when this node cannot own a partition that is assigned to it, and another member can own all
// partitions. Without such a member it keeps what it has, so that nodes that are equally cut off do not pass partitions around.
func (m *membership) watchAble(ctx context.Context) error {
	for pause.For(ctx, leadersEvery) {
		list := slices.DeleteFunc(m.unable(giveUpAfter), func(p int32) bool { return !m.isAssigned(p) })
		if len(list) == 0 {
			continue
		}
		if able, err := m.anotherIsAble(ctx); err == nil && able {
			return fmt.Errorf("%w: it cannot own the partitions %v", errUnable, list)
		}
	}
	return nil
}

// anotherIsAble says whether another live member can own all partitions.
func (m *membership) anotherIsAble(ctx context.Context) (bool, error) {
	names, err := m.members(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(names, m.liveness.isAble), nil
}

// isAble says whether the node is alive, is not this one, and can own all partitions by its own account.
func (l *liveness) isAble(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.seen[events.PresenceNode+"/"+node]
	return ok && node != l.self && b.SeenAt != 0 && time.Since(b.at) <= silentAfter && len(b.Unable) == 0
}

// stepAside gives all partitions to other members, at least for the pause. It returns true when this node should be a member again: it may
// be able to own all partitions, or no other member can.
func (m *membership) stepAside(ctx context.Context, why error, wait time.Duration) bool {
	m.ns.log.Error("this node gives its partitions to others; it takes its share back by itself when it can", "error", why)
	m.mu.Lock()
	m.aside, m.pause = why, wait
	m.mu.Unlock()
	if !m.handOver(ctx) {
		return false
	}
	since := time.Now()
	for {
		if !pause.For(ctx, leadersEvery) {
			return false
		}
		able, err := m.anotherIsAble(ctx)
		if err == nil && !able || len(m.unable(unreachedAfter)) == 0 && time.Since(since) >= wait {
			break
		}
	}
	m.ns.log.Info("this node takes its share of the partitions back")
	m.mu.Lock()
	m.aside = nil
	m.mu.Unlock()
	return true
}

// steppedAside says why this node has given up its partitions; nil if it has not.
func (m *membership) steppedAside() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.aside
}
