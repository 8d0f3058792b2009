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
	"golang.org/x/sync/semaphore"
)

const (
	// defaultSession is above the 6 s that brokers demand and short enough that a dead member is replaced soon.
	defaultSession = 10 * time.Second
	// defaultHeartbeat is how soon a member learns of a rebalance.
	defaultHeartbeat = 500 * time.Millisecond
	defaultGroupWait = 500 * time.Millisecond
	// alone is all of Group.committing: whoever holds one place of it shares it.
	alone = 1 << 30
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
	// handed is what was known of the partitions whose records Poll returned last. Owned by Poll.
	handed map[place]holding
	// committing is held by CommitMarks, and by a revocation alone. It is no mutex, because it is held while a broker is
	// waited for: in a testing/synctest bubble, who waits for a mutex keeps the time from passing in which the answer comes.
	committing *semaphore.Weighted
	// ask wakes the goroutine that learns, which closes asked when it has ended.
	ask    chan struct{}
	asked  chan struct{}
	opened time.Time

	// mu guards the fields below.
	mu sync.Mutex
	// session is whom the group knew us as when it assigned what is in assigned.
	session membership
	// assigned holds the number of each partition's assignment, assignments the last one that was given, and listed the
	// partitions as Assigned returns them, nil when it was not asked since they changed.
	assigned    map[place]int64
	assignments int64
	listed      Partitions
	// holdings are what is known of the assigned partitions. news is closed when there are more.
	holdings map[place]holding
	news     chan struct{}
	// torn are the assigned partitions that lost records, and from where on, until that is part of their holdings.
	torn map[place]int64
	// unlearnt is why the last try to learn them failed.
	unlearnt error
	// interrupted are assigned partitions that have to be read from their marks again. wake ends a Poll for that.
	interrupted map[place]struct{}
	wake        context.CancelFunc
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
		cluster: c, cfg: cfg, assigned: make(map[place]int64), holdings: make(map[place]holding),
		interrupted: make(map[place]struct{}), torn: make(map[place]int64), news: make(chan struct{}), over: make(chan struct{}), committing: semaphore.NewWeighted(alone),
		ask: make(chan struct{}, 1), asked: make(chan struct{}), opened: time.Now(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.open(append(g.options(), kgo.WithContext(ctx))...)
	if err != nil {
		cancel()
		return nil, err
	}
	g.client, g.cancel = client, cancel
	if cfg.MembershipOnly {
		client.PauseFetchTopics(cfg.Topics...)
		close(g.asked)
	} else {
		go g.learnLoop(ctx)
	}
	return g, nil
}

func (g *Group) options() []kgo.Opt {
	cfg := g.cfg
	opts := []kgo.Opt{
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
		// The client calls this at the begin of every session, also when nothing was added.
		kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, ps map[string][]int32) { g.onAssigned(membershipOf(c), ps) }),
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
	return opts
}

// Poll waits for up to limit records. Records and errors may come together; the error is ctx's, ErrClosed, ErrFenced or
// ErrDenied when there is no point in polling on, else one of the broker's that the client goes on trying to overcome.
func (g *Group) Poll(ctx context.Context, limit int) ([]events.Record, error) {
	var errs []error
	if g.pending == nil {
		waiting, stop := g.beforePoll(ctx)
		polled := g.client.PollRecords(waiting, limit)
		stop()
		g.mu.Lock()
		assignments := maps.Clone(g.assigned)
		g.mu.Unlock()
		g.client.AllowRebalance()
		if err := errors.Join(pollError(ctx, polled), g.lostFor(polled)); err != nil {
			return nil, err
		}
		polled.EachError(func(topic string, partition int32, err error) {
			if topic != "" {
				err = typed(err, topic, partition, -1)
				g.tear(err)
				errs = append(errs, fmt.Errorf("read %s/%d: %w", topic, partition, err))
			}
		})
		g.pending = &batch{records: fromKgo(polled.Records()), assignments: assignments}
	}
	if err := g.awaitMarks(ctx, g.pending); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	records := g.current(g.pending)
	g.pending = nil
	return records, errors.Join(errs...)
}

// Commit records, for each partition, the offset to start from next time: the low-water mark of what is finished. It is
// for groups with MembershipOnly, and for partitions of which Poll has returned records.
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

// Assigned returns the partitions that this member has now, sorted. The caller must not change it.
func (g *Group) Assigned() Partitions {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed != nil {
		return g.listed
	}
	g.listed = make(Partitions)
	for at := range g.assigned {
		g.listed[at.topic] = append(g.listed[at.topic], at.partition)
	}
	for _, ps := range g.listed {
		slices.Sort(ps)
	}
	return g.listed
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
	// The client waits for a rebalance that is under way, which may wait for a dead member. Then it gets half of the time,
	// so that there is some left to say that we are gone.
	waiting, end := context.WithCancel(ctx)
	if by, bounded := ctx.Deadline(); bounded {
		waiting, end = context.WithTimeout(ctx, time.Until(by)/2)
	}
	defer end()
	stop := context.AfterFunc(waiting, g.cancel)
	defer stop()
	err := g.client.LeaveGroupContext(waiting)
	member := membershipOf(g.client).member
	g.Close()
	if errors.Is(g.lose(nil), ErrFenced) {
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
func (g *Group) Close() {
	closeClient(g.client, g.cancel)
	// Its last act is to poll, and what it threw away so held up a goroutine of its own for ever.
	g.client.AllowRebalance()
	<-g.asked
}

// CommittedOffsets returns what a group has committed.
func (c *Cluster) CommittedOffsets(ctx context.Context, group string) (Offsets, error) {
	var resp kadm.OffsetResponses
	err := again(ctx, func() (err error) {
		if resp, err = c.admin.FetchOffsets(ctx, group); err == nil {
			err = resp.Error()
		}
		return err
	})
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
