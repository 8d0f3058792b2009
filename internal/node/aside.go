package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
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

// faulty says whether the partition stopped here for a reason other than the contents of its topics, which would stop it on every
// node.
func (m *membership) faulty(p int32) bool {
	_, err := m.owners.shells[p].Status()
	for _, everywhere := range []error{supervisor.ErrInputLost, ErrGap, ErrLog} {
		if errors.Is(err, everywhere) {
			return false
		}
	}
	return err != nil
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

// stepAside gives all partitions to other members. It returns true when this node should be a member again: it can own all
// partitions, or no other member can.
func (m *membership) stepAside(ctx context.Context, why error, wait time.Duration) bool {
	m.ns.log.Error("this node gives its partitions to others; it takes its share back by itself when it can", "error", why)
	m.mu.Lock()
	m.aside = why
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
