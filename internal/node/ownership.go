package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"golang.org/x/sync/errgroup"
)

// lagEvery is how often lag tools get a new figure: as often as common ones look.
const lagEvery = 5 * time.Second

// leaveWait bounds the leaving of the group; without an answer the others notice by our silence.
const leaveWait = 2 * time.Second

// ownership is this node's membership in the group that says which partitions it should try for. The group decides
// nothing: the log does (DESIGN 4).
type ownership struct {
	n *Node
	// group is nil before Run.
	group *kafka.Group
	wake  chan struct{}

	// mu guards the fields below.
	mu      sync.Mutex
	changes []change
	// assigned holds what the group gave and did not take.
	assigned map[int32]bool
}

// change is what the group gave or took, in the order of its word.
type change struct {
	partitions []int32
	given      bool
}

func newOwnership(n *Node) *ownership {
	return &ownership{n: n, wake: make(chan struct{}, 1), assigned: map[int32]bool{}}
}

func (o *ownership) groupName() string { return o.n.cfg.Namespace + ".owners" }

// hear takes the group's word. The rebalance waits for it, so it only hands over.
func (o *ownership) hear(of kafka.Partitions, given bool) {
	// Somebody may have given the topic more partitions than the namespace has. They are of no use, and the audit says so.
	partitions := slices.DeleteFunc(slices.Clone(of[o.n.topics.Events()]), func(p int32) bool { return p >= o.n.partitions })
	o.mu.Lock()
	o.changes = append(o.changes, change{partitions, given})
	for _, p := range partitions {
		if given {
			o.assigned[p] = true
		} else {
			delete(o.assigned, p)
		}
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// isAssigned says whether the group wants this node to own a partition.
func (o *ownership) isAssigned(p int32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.assigned[p]
}

// Run is a member until ctx ends. The caller stops the shells and then calls leave, so that nothing is decided here any
// more when another node begins.
func (o *ownership) Run(ctx context.Context) error {
	var err error
	o.group, err = kafka.NewGroup(o.n.cfg.Cluster, kafka.GroupConfig{
		Group: o.groupName(), Topics: []string{o.n.topics.Events()}, InstanceID: o.n.cfg.Name, MembershipOnly: true,
		OnAssigned: func(ps kafka.Partitions) { o.hear(ps, true) },
		OnRevoked:  func(ps kafka.Partitions) { o.hear(ps, false) },
	})
	if err != nil {
		return fmt.Errorf("join group %s: %w", o.groupName(), err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.watch(ctx) })
	g.Go(func() error { return o.carry(ctx) })
	g.Go(func() error { return o.evict(ctx) })
	g.Go(func() error { return o.showLag(ctx) })
	return g.Wait()
}

// showLag commits the resume points of what is owned, for lag tools only: nobody resumes from them (DESIGN 4).
func (o *ownership) showLag(ctx context.Context) error {
	ticks := time.NewTicker(lagEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		marks := kafka.Offsets{o.n.topics.Events(): {}, o.n.topics.Submissions(): {}, o.n.topics.Reports(): {}}
		for _, p := range o.n.owned() {
			info, err := o.n.store.PartitionInfo(p)
			if err != nil {
				continue // the owner meets it, and says so
			}
			marks[o.n.topics.Events()][p] = info.Next
			marks[o.n.topics.Submissions()][p] = info.Inputs[events.Submissions].Next
			marks[o.n.topics.Reports()][p] = info.Inputs[events.Reports].Next
		}
		if err := o.group.Commit(ctx, marks); err != nil && ctx.Err() == nil {
			o.n.cfg.Logger.Debug("the lag that tools show is old", "error", err) // refused while the group changes
		}
	}
}

// watch ends when the membership is lost for good.
func (o *ownership) watch(ctx context.Context) error {
	err := o.group.Watch(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, kafka.ErrFenced):
		return fmt.Errorf("another process runs as node %q and has taken this one's place: give each node a name of its own (--node): %w", o.n.cfg.Name, err)
	}
	return err
}

// carry does what the group says, in its order.
func (o *ownership) carry(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.wake:
		}
		o.mu.Lock()
		changes := o.changes
		o.changes = nil
		o.mu.Unlock()
		for _, c := range changes {
			if err := o.apply(ctx, c); err != nil {
				return err
			}
		}
	}
}

func (o *ownership) apply(ctx context.Context, c change) error {
	if c.given {
		for _, p := range c.partitions {
			if o.n.standby != nil {
				o.n.standby.drop(p)
			}
			o.n.shells[p].Assign()
		}
		o.n.cfg.Logger.Info("partitions are assigned", "partitions", c.partitions)
		return nil
	}
	var quiet []<-chan struct{}
	for _, p := range c.partitions {
		quiet = append(quiet, o.n.shells[p].Revoke())
	}
	for i, p := range c.partitions {
		select {
		case <-quiet[i]:
		case <-ctx.Done():
			return nil
		}
		if o.n.standby != nil {
			if err := o.n.standby.follow(p); err != nil {
				return err
			}
		}
	}
	o.n.cfg.Logger.Info("partitions are given up", "partitions", c.partitions)
	return nil
}

// leave gives the partitions to the others at once.
func (o *ownership) leave() {
	if o.group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	if err := o.group.Leave(ctx); err != nil {
		o.n.cfg.Logger.Warn("the group did not hear that this node leaves; the others will notice", "error", err)
		return
	}
	o.n.cfg.Logger.Info("this node has given its partitions up and left")
}
