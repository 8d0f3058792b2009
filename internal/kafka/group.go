package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// defaultSession is above the 6 s that brokers demand and short enough that a dead member is replaced soon.
	defaultSession = 10 * time.Second
	// defaultHeartbeat is how soon a member learns of a rebalance.
	defaultHeartbeat = 500 * time.Millisecond
	defaultGroupWait = 500 * time.Millisecond
)

// GroupConfig says how a member of a consumer group reads.
type GroupConfig struct {
	Group  string
	Topics []string
	// InstanceID makes the member static: a quick restart under the same name moves no partition. Empty: dynamic.
	InstanceID string
	// OnAssigned and OnRevoked are called with what was added and what is taken, from the client's goroutine. The
	// rebalance waits for them, so they only hand over. What was lost to another member comes in OnRevoked too.
	OnAssigned, OnRevoked func(Partitions)
	// MembershipOnly joins and balances but fetches nothing: for owners, who only need to know who should try.
	MembershipOnly bool
	// MaxWait is how long a broker holds a fetch while there is nothing; default 500 ms. A partition that is assigned or
	// resumed meanwhile waits for as long, and a group cannot be nudged as a Reader can.
	MaxWait time.Duration
	// Session and Heartbeat default to 10 s and 500 ms.
	Session, Heartbeat time.Duration
}

func (c *GroupConfig) validate() error {
	var errs []error
	if c.Group == "" {
		errs = append(errs, errors.New("a group needs a name"))
	}
	if len(c.Topics) == 0 {
		errs = append(errs, errors.New("a group needs a topic"))
	}
	if c.Session == 0 {
		c.Session = defaultSession
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.MaxWait == 0 {
		c.MaxWait = defaultGroupWait
	}
	return errors.Join(errs...)
}

// Group is a member of a consumer group. It starts at the earliest record where nothing was committed, and commits
// only what it is told. Poll is for one goroutine; the other methods are safe for concurrent use.
type Group struct {
	cluster *Cluster
	client  *kgo.Client
	cancel  context.CancelFunc
	cfg     GroupConfig

	// pending is what was polled and waits for its marks. Owned by Poll.
	pending *batch
	// committing is held by CommitMarks, and by a revocation alone.
	committing sync.RWMutex

	// mu guards the fields below.
	mu sync.Mutex
	// assigned holds the number of each partition's assignment, assignments the last one that was given.
	assigned    map[place]int64
	assignments int64
	// marks are what was committed of the assigned partitions that were polled.
	marks map[place]Mark
	// lost is why the membership is lost for good, nil as long as it is not. over is closed then.
	lost error
	over chan struct{}
}

// NewGroup joins in the background. Leave it, or Close it to let the group notice by itself.
func NewGroup(c *Cluster, cfg GroupConfig) (*Group, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Group{
		cluster: c, cfg: cfg, assigned: make(map[place]int64), marks: make(map[place]Mark), over: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	opts := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(cfg.Session),
		kgo.HeartbeatInterval(cfg.Heartbeat),
		kgo.RebalanceTimeout(cfg.Session),
		kgo.DisableAutoCommit(),
		// A work request must not be missed; one that comes twice does no harm.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(cfg.MaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartition),
		kgo.MaxDecompressBatchBytes(defaultMaxDecompress),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { g.onAssigned(ps) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { g.onRevoked(ps) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { g.onRevoked(ps) }),
		kgo.WithHooks(groupHook{g}),
	}
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	if !cfg.MembershipOnly {
		// Poll must see which assignment its records belong to; it allows the rebalance before it returns.
		opts = append(opts, kgo.BlockRebalanceOnPoll())
	}
	client, err := c.open(opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	if cfg.MembershipOnly {
		client.PauseFetchTopics(cfg.Topics...)
	}
	g.client, g.cancel = client, cancel
	return g, nil
}

func (g *Group) onAssigned(ps map[string][]int32) {
	if len(ps) == 0 {
		return
	}
	g.mu.Lock()
	for topic, partitions := range ps {
		for _, p := range partitions {
			g.assignments++
			g.assigned[place{topic, p}] = g.assignments
		}
	}
	g.mu.Unlock()
	if g.cfg.OnAssigned != nil {
		g.cfg.OnAssigned(maps.Clone(ps))
	}
}

func (g *Group) onRevoked(ps map[string][]int32) {
	if len(ps) == 0 {
		return
	}
	g.committing.Lock()
	g.mu.Lock()
	for topic, partitions := range ps {
		for _, p := range partitions {
			delete(g.assigned, place{topic, p})
			delete(g.marks, place{topic, p})
		}
	}
	g.mu.Unlock()
	g.committing.Unlock()
	if g.cfg.OnRevoked != nil {
		g.cfg.OnRevoked(maps.Clone(ps))
	}
}

// Poll waits for up to limit records. Records and errors may come together; the error is ctx's, ErrClosed, ErrFenced or
// ErrDenied when there is no point in polling on, else one of the broker's that the client goes on trying to overcome.
func (g *Group) Poll(ctx context.Context, limit int) ([]events.Record, error) {
	var errs []error
	if g.pending == nil {
		polled := g.client.PollRecords(ctx, limit)
		g.mu.Lock()
		assignments := maps.Clone(g.assigned)
		g.mu.Unlock()
		g.client.AllowRebalance()
		if err := errors.Join(pollError(ctx, polled), g.lostFor(polled)); err != nil {
			return nil, err
		}
		polled.EachError(func(topic string, partition int32, err error) {
			errs = append(errs, fmt.Errorf("read %s/%d: %w", topic, partition, typed(err, topic, partition, -1)))
		})
		g.pending = &batch{records: fromKgo(polled.Records()), assignments: assignments}
	}
	if err := g.learn(ctx, g.pending); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	records := g.current(g.pending)
	g.pending = nil
	return records, errors.Join(errs...)
}

// Commit records, for each partition, the offset to start from next time: the low-water mark of what is finished.
func (g *Group) Commit(ctx context.Context, marks Offsets) error {
	if len(marks) == 0 {
		return nil
	}
	commit := make(map[string]map[int32]kgo.EpochOffset, len(marks))
	for topic, partitions := range marks {
		commit[topic] = make(map[int32]kgo.EpochOffset, len(partitions))
		for p, offset := range partitions {
			commit[topic][p] = kgo.EpochOffset{Epoch: -1, Offset: offset}
		}
	}
	var failed error
	g.client.CommitOffsetsSync(ctx, commit,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = commitError(resp, err)
		})
	if failed != nil {
		return fmt.Errorf("commit offsets of group %s: %w", g.cfg.Group, fromClient(failed))
	}
	return nil
}

func commitError(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || resp == nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// Assigned returns the partitions that this member has now, sorted.
func (g *Group) Assigned() Partitions {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(Partitions)
	for at := range g.assigned {
		out[at.topic] = append(out[at.topic], at.partition)
	}
	for _, ps := range out {
		slices.Sort(ps)
	}
	return out
}

// Pause fetches no more of a partition, for a queue that is full; what was fetched is kept for Resume.
func (g *Group) Pause(topic string, partition int32) {
	g.client.PauseFetchPartitions(map[string][]int32{topic: {partition}})
}

// Resume undoes Pause.
func (g *Group) Resume(topic string, partition int32) {
	g.client.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
}

// Leave gives the partitions back at once, after OnRevoked, and closes the member. The client sends no leave for a
// static member, and its partitions would lie idle for a session; so we send it, and only after the client has ended,
// since it would join again. One that was fenced says nothing: the member of its name is another.
func (g *Group) Leave(ctx context.Context) error {
	defer g.cancel()
	stop := context.AfterFunc(ctx, g.cancel)
	defer stop()
	err := g.client.LeaveGroupContext(ctx)
	member, _ := g.client.GroupMetadata()
	g.client.Close()
	if errors.Is(g.lostFor(nil), ErrFenced) {
		return nil
	}
	if g.cfg.InstanceID != "" {
		err = g.cluster.leave(ctx, g.cfg, member)
	}
	if err != nil {
		return fmt.Errorf("leave group %s: %w", g.cfg.Group, fromClient(err))
	}
	return nil
}

// Close ends the member without a word to the group, as a crash would, but quicker for the process.
func (g *Group) Close() { closeClient(g.client, g.cancel) }

// CommittedOffsets returns what a group has committed.
func (c *Cluster) CommittedOffsets(ctx context.Context, group string) (Offsets, error) {
	resp, err := c.admin.FetchOffsets(ctx, group)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, err)
	}
	out := make(Offsets)
	resp.Each(func(o kadm.OffsetResponse) {
		if out[o.Topic] == nil {
			out[o.Topic] = make(map[int32]int64)
		}
		out[o.Topic][o.Partition] = o.At
	})
	return out, nil
}
