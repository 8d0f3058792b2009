package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"golang.org/x/sync/errgroup"
)

// lagEvery is how often the figures for lag tools are updated: as often as common tools read them.
const lagEvery = 5 * time.Second

// leaveWithin bounds the request to leave the group. If it fails, the others notice this node's silence.
const leaveWithin = 2 * time.Second

// rejoinPause is how long a node that the group fenced waits before it joins again. It doubles up to rejoinPauseMax. It is not
// shorter than silentAfter, so that a live process with this node's name is heard meanwhile, and a dead one is not.
const (
	rejoinPause    = silentAfter
	rejoinPauseMax = 5 * rejoinPause
)

// membership is this node's membership in the group that says which partitions it should try to own. The group decides
// nothing: the log does (docs/protocol.md, "The owner").
type membership struct {
	ns       *namespace
	store    *stateStore
	owners   *owners
	liveness *liveness
	replica  *replica // nil for a node that follows nothing
	reach    *reach
	// group is nil before Run and between two sessions. Owned by stay.
	group *kafka.Group
	wake  chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// changes were made by the group and are not yet applied, oldest first.
	changes []change
	// assigned holds the partitions that the group has assigned and not taken back.
	assigned map[int32]bool
	// aside is why this node has given its partitions to others, or nil; pause is for how long at least, also if it gives up a single one.
	aside error
	pause time.Duration
	// faultyUntil says until when the error with which a partition stopped here counts, although it was given up.
	faultyUntil map[int32]time.Time
}

// change is a set of partitions that the group assigned, or took back.
type change struct {
	partitions []int32
	assigned   bool
	// done, if set, is closed when the change is applied.
	done chan struct{}
}

func (m *membership) groupName() string { return kafka.Groups{Namespace: m.ns.name}.Owners() }

// changed records a change. The rebalance waits for it, so it only queues the change.
func (m *membership) changed(of kafka.Partitions, assigned bool) {
	// Somebody may have added partitions to the topic. They are of no use, and the audit reports them.
	partitions := slices.DeleteFunc(slices.Clone(of[m.ns.topics.Events()]), func(p int32) bool { return p >= m.ns.partitions })
	m.mu.Lock()
	m.changes = append(m.changes, change{partitions: partitions, assigned: assigned})
	for _, p := range partitions {
		if assigned {
			m.assigned[p] = true
		} else {
			delete(m.assigned, p)
		}
	}
	m.mu.Unlock()
	m.look()
}

// look wakes applyChanges.
func (m *membership) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// isAssigned says whether the group wants this node to own a partition.
func (m *membership) isAssigned(p int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assigned[p]
}

// Run stays in the group until ctx ends. The caller stops the shells and then calls leave, so that this node decides
// nothing more when another one begins.
func (m *membership) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.applyChanges(ctx) })
	g.Go(func() error { return m.reach.Run(ctx) })
	g.Go(func() error { return m.stay(ctx) })
	return g.Wait()
}

// stay joins again after the group has fenced this node, unless another process with its name is alive. Being fenced does
// not prove that there is one: the group also fences a member whose own join takes effect after it has given up waiting.
func (m *membership) stay(ctx context.Context) error {
	wait, aside := rejoinPause, asidePause
	for {
		if err := m.ns.tooOld(); err != nil {
			return m.resign(ctx, err)
		}
		begun := time.Now()
		fenced := m.session(ctx)
		if errors.Is(fenced, events.ErrReaderTooOld) {
			return m.resign(ctx, fenced)
		}
		if errors.Is(fenced, errUnable) {
			if time.Since(begun) > 2*asidePauseMax { // longer than another node that cannot own them either leaves them here
				aside = asidePause
			}
			if !m.stepAside(ctx, fenced, aside) {
				return nil
			}
			aside = min(2*aside, asidePauseMax)
			continue
		}
		if !errors.Is(fenced, kafka.ErrFenced) {
			return fenced
		}
		m.group.Close()
		m.group = nil
		if time.Since(begun) > rejoinPauseMax {
			wait = rejoinPause
		}
		m.ns.log.Warn("the group says that another process has joined under this node's name; joining again unless its heartbeats are heard",
			"pause", wait, "error", fenced)
		if !pause.For(ctx, wait) {
			return nil
		}
		if m.liveness.hasNamesake() {
			return fmt.Errorf("another process runs as node %q and has replaced this one: give each node a different name (--node): %w", m.liveness.self, fenced)
		}
		wait = min(2*wait, rejoinPauseMax)
	}
}

// resign gives all partitions to nodes of a newer build, and waits until ctx ends: this build cannot own them again.
func (m *membership) resign(ctx context.Context, why error) error {
	m.ns.log.Error("this node owns no partition any more", "error", why)
	if m.handOver(ctx) {
		<-ctx.Done()
	}
	return nil
}

// handOver gives up all partitions and leaves the group. It returns false if ctx ended first.
func (m *membership) handOver(ctx context.Context) bool {
	done := make(chan struct{})
	m.mu.Lock()
	m.changes = append(m.changes, change{partitions: slices.Sorted(maps.Keys(m.assigned)), done: done})
	clear(m.assigned)
	m.mu.Unlock()
	m.look()
	select {
	case <-done: // nothing of this node lands after the next owner's claim
	case <-ctx.Done():
		return false
	}
	m.leave()
	m.group = nil
	return true
}

// watchLevel ends when the level of the namespace exceeds that of this build.
func (m *membership) watchLevel(ctx context.Context) error {
	for {
		moved := m.ns.catalog.movement()
		if err := m.ns.tooOld(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-moved:
		}
	}
}

// session joins the group and returns when the membership is lost for good, or ctx ends.
func (m *membership) session(ctx context.Context) error {
	var err error
	m.group, err = kafka.NewGroup(m.ns.cluster, kafka.GroupConfig{
		Group: m.groupName(), Topics: []string{m.ns.topics.Events()}, InstanceID: m.liveness.self, MembershipOnly: true,
		OnAssigned: func(ps kafka.Partitions) { m.changed(ps, true) },
		OnRevoked:  func(ps kafka.Partitions) { m.changed(ps, false) },
	})
	if err != nil {
		return fmt.Errorf("join group %s: %w", m.groupName(), err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.watch(ctx) })
	g.Go(func() error { return m.watchLevel(ctx) })
	g.Go(func() error { return m.watchAble(ctx) })
	g.Go(func() error { return m.evict(ctx) })
	g.Go(func() error { return m.publishLag(ctx) })
	return g.Wait()
}

// publishLag commits the resume points of the owned partitions, for lag tools only: nothing resumes from them
// (docs/protocol.md, "Where to resume").
func (m *membership) publishLag(ctx context.Context) error {
	return every(ctx, lagEvery, func() {
		offsets := kafka.Offsets{m.ns.topics.Events(): {}}
		for _, in := range events.Inputs {
			offsets[m.ns.topics.Input(in)] = map[int32]int64{}
		}
		for _, p := range m.owners.owned() {
			info, err := m.store.PartitionInfo(p)
			if err != nil {
				continue // the owner meets the error, and logs it
			}
			offsets[m.ns.topics.Events()][p] = info.Next
			for _, in := range events.Inputs {
				offsets[m.ns.topics.Input(in)][p] = info.Inputs[in].Next
			}
		}
		if err := m.group.Commit(ctx, offsets); err != nil && ctx.Err() == nil {
			m.ns.log.Debug("the lag that tools show is out of date", "error", err) // commits are refused during a rebalance
		}
	})
}

// watch ends when the membership is lost for good.
func (m *membership) watch(ctx context.Context) error {
	err := m.group.Watch(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// applyChanges applies the changes of the group in order.
func (m *membership) applyChanges(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
		m.mu.Lock()
		changes := m.changes
		m.changes = nil
		m.mu.Unlock()
		for _, c := range changes {
			apply := m.giveUp
			if c.assigned {
				apply = m.takeUp
			}
			if err := apply(ctx, c.partitions); err != nil {
				return err
			}
			if c.done != nil {
				close(c.done)
			}
		}
	}
}

func (m *membership) takeUp(_ context.Context, partitions []int32) error {
	for _, p := range partitions {
		if m.replica != nil {
			m.replica.drop(p)
		}
		m.owners.shells[p].Assign()
	}
	m.ns.log.Info("partitions are assigned", "partitions", partitions)
	return nil
}

func (m *membership) giveUp(ctx context.Context, partitions []int32) error {
	m.remember(partitions)
	var quiet []<-chan struct{}
	for _, p := range partitions {
		quiet = append(quiet, m.owners.shells[p].Revoke())
	}
	for i, p := range partitions {
		select {
		case <-quiet[i]:
		case <-ctx.Done():
			return nil
		}
		if m.replica != nil {
			if err := m.replica.follow(p); err != nil {
				return err
			}
		}
	}
	m.ns.log.Info("partitions are given up", "partitions", partitions)
	return nil
}

// leave lets the others have the partitions at once.
func (m *membership) leave() {
	if m.group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	if err := m.group.Leave(ctx); err != nil {
		m.ns.log.Warn("the group did not acknowledge that this node is leaving; the others will notice its silence", "error", err)
		return
	}
	m.ns.log.Info("this node has given up its partitions and left the group")
}
