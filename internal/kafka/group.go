package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

const (
	// defaultSession is above the 6 s that brokers demand, and short enough that a dead member is soon replaced.
	defaultSession = 10 * time.Second
	// defaultHeartbeat bounds how late a member learns of a rebalance.
	defaultHeartbeat = 500 * time.Millisecond
	defaultGroupWait = 500 * time.Millisecond
	// idsKept is how long a commit trusts a topic's ID: a topic that was recreated has another one.
	idsKept = time.Minute
	// alone is the full weight of the semaphore Group.committing: its holder shares it with nobody. A commit takes one
	// unit, so commits share it.
	alone = 1 << 30
)

// GroupConfig says how a member of a consumer group reads.
type GroupConfig struct {
	Group  string
	Topics []string
	// InstanceID makes the member static: a quick restart under the same name moves no partition. Empty: dynamic.
	InstanceID string
	// OnAssigned and OnRevoked are called with the partitions that were added and removed, from the client's goroutine. The rebalance
	// waits for them, so they must not block. Partitions lost to another member are passed to OnRevoked too.
	OnAssigned, OnRevoked func(Partitions)
	// With MembershipOnly the member joins and is assigned partitions, but fetches nothing. Owners use it: they only need to
	// know who should try to own a partition.
	MembershipOnly bool
	// Follows is the closed member of this process that the new one replaces, or nil. The new one does not reuse its assignment numbers.
	Follows *Group
	// MaxWait is how long a broker holds a fetch while there is nothing to read; default 500 ms. A partition that is assigned in
	// the meantime waits that long, because the fetches of a group cannot be restarted, unlike the fetches of a Reader.
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
	c.Session = cmp.Or(c.Session, defaultSession)
	c.Heartbeat = cmp.Or(c.Heartbeat, defaultHeartbeat)
	c.MaxWait = cmp.Or(c.MaxWait, defaultGroupWait)
	return errors.Join(errs...)
}

// Group is a member of a consumer group. It starts at the earliest record of a partition without a commit, and it commits only when
// the caller asks. Poll is for one goroutine; the other methods are safe for concurrent use.
type Group struct {
	cluster *Cluster
	client  *kgo.Client
	cancel  context.CancelFunc
	cfg     GroupConfig

	// pending are the polled records that wait until the holdings of their partitions are known. Owned by Poll.
	pending *pollResult
	// handed are the holdings of the partitions whose records Poll returned last. Owned by Poll.
	handed map[place]holding
	// Commits share committing, and a revocation takes all of it. It is not a mutex, because it is held while waiting for a
	// broker: in a testing/synctest bubble no time passes while a goroutine waits for a mutex, so the answer would never come.
	committing *semaphore.Weighted
	// ask wakes holdingsLoop, which closes asked when it has ended.
	ask    chan struct{}
	asked  chan struct{}
	opened time.Time

	// mu guards the fields below.
	mu sync.Mutex
	// session is the identity under which the group assigned the partitions in assigned.
	session membership
	// assigned holds the number of each partition's assignment. assignments is the last number used. listed is what Assigned
	// returns, nil if the assignment has changed since it was built.
	assigned    map[place]int64
	assignments int64
	listed      Partitions
	// holdings are the facts known about the assigned partitions. news is closed when more is known.
	holdings map[place]holding
	news     chan struct{}
	// torn holds the assigned partitions that lost records, with the first lost offset, until their holdings record the loss.
	torn map[place]int64
	// holdingErr is the error of the last failed try to find the holdings.
	holdingErr error
	// interrupted holds the assigned partitions that must be read from their marks again. wake ends a waiting Poll so that this
	// happens.
	interrupted map[place]struct{}
	wake        context.CancelFunc
	// lost is the reason why the membership ended for good, or nil while it has not. over is closed when it ends.
	lost error
	over chan struct{}
}

// NewGroup joins in the background. End it with Leave, or with Close, after which the group notices by itself.
func NewGroup(c *Cluster, cfg GroupConfig) (*Group, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Group{
		cluster: c, cfg: cfg, assigned: make(map[place]int64), holdings: make(map[place]holding),
		interrupted: make(map[place]struct{}), torn: make(map[place]int64), news: make(chan struct{}), over: make(chan struct{}), committing: semaphore.NewWeighted(alone),
		ask: make(chan struct{}, 1), asked: make(chan struct{}), opened: time.Now(),
	}
	if cfg.Follows != nil {
		g.assignments = cfg.Follows.lastAssignment()
		g.cfg.Follows = nil // otherwise each member would keep all its predecessors in memory
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
		go g.holdingsLoop(ctx)
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
		// A work request must not be missed. Reading one twice does no harm.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(cfg.MaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartition),
		kgo.MaxDecompressBatchBytes(maxDecompress),
		// The client calls this when a session begins, also when nothing was added.
		kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, ps map[string][]int32) { g.onAssigned(membershipOf(c), ps) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { g.onRevoked(ps) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { g.onRevoked(ps) }),
		kgo.WithHooks(groupHook{g}),
	}
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	if !cfg.MembershipOnly {
		// Poll must know to which assignment its records belong. It allows the rebalance before it returns.
		opts = append(opts, kgo.BlockRebalanceOnPoll())
	}
	return opts
}

// Poll waits for up to limit records. It may return records together with an error. ErrClosed, ErrFenced, ErrDenied, ErrRecreated and
// the error of ctx mean that polling on is pointless; the client keeps trying to overcome any other.
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
				err = g.denied(typed(err, topic, partition, -1), topic)
				g.invalidate(err)
				errs = append(errs, fmt.Errorf("read %s/%d: %w", topic, partition, err))
			}
		})
		g.pending = &pollResult{records: batch.Records(polled.Records()), assignments: assignments}
	}
	if err := g.awaitMarks(ctx, g.pending); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	records := g.current(g.pending)
	g.pending = nil
	return records, errors.Join(errs...)
}

// Commit stores, for each partition, the offset to start from next time: everything below it is finished. It is for groups with
// MembershipOnly, and for partitions from which Poll has returned records. It never waits for a rebalance: during one the group may
// refuse it, and that is an error.
func (g *Group) Commit(ctx context.Context, marks Offsets) error {
	topics, err := topicIDs(ctx, g.client, g.cfg.Group, withPartitions(marks))
	if err != nil || len(topics) == 0 {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = g.cfg.Group
	if req.MemberID, req.Generation = g.client.GroupMetadata(); req.Generation < 0 {
		return fmt.Errorf("commit offsets of group %s: %w", g.cfg.Group, errNotAssigned)
	}
	if g.cfg.InstanceID != "" {
		req.InstanceID = &g.cfg.InstanceID
	}
	for topic, id := range topics {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, id
		for p, offset := range marks[topic] {
			at := kmsg.NewOffsetCommitRequestTopicPartition()
			at.Partition, at.Offset, at.LeaderEpoch = p, offset, -1
			t.Partitions = append(t.Partitions, at)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, g.client)
	if err = commitError(resp, err); err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", g.cfg.Group, g.denied(fromClient(err), strings.Join(g.cfg.Topics, ", ")))
	}
	return nil
}

// withPartitions yields the topics that have partitions.
func withPartitions[V any, M ~map[string]map[int32]V](of M) iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic, partitions := range of {
			if len(partitions) > 0 && !yield(topic) {
				return
			}
		}
	}
}

// topicIDs returns the IDs of topics, for brokers that know a topic of a commit by its ID only.
func topicIDs(ctx context.Context, client *kgo.Client, group string, of iter.Seq[string]) (map[string][16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	for topic := range of {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return nil, nil
	}
	resp, err := client.RequestCachedMetadata(ctx, req, idsKept)
	if err != nil {
		return nil, fmt.Errorf("commit offsets of group %s: %w", group, fromClient(err))
	}
	ids := make(map[string][16]byte, len(resp.Topics))
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("commit offsets of group %s: topic %s: %w", group, *t.Topic, fromClient(err))
		}
		ids[*t.Topic] = t.TopicID
	}
	return ids, nil
}

// commitPolled is Commit by the client, which knows when its membership ends: it waits for a rebalance that is under way.
func (g *Group) commitPolled(ctx context.Context, marks Offsets) error {
	if len(marks) == 0 {
		return nil
	}
	commit := make(map[string]map[int32]kgo.EpochOffset, len(marks))
	for topic, partitions := range marks {
		for p, offset := range partitions {
			set(commit, place{topic, p}, kgo.EpochOffset{Epoch: -1, Offset: offset})
		}
	}
	var failed error
	g.client.CommitOffsetsSync(ctx, commit,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = commitError(resp, err)
		})
	if failed != nil {
		return fmt.Errorf("commit offsets of group %s: %w", g.cfg.Group, g.denied(fromClient(failed), strings.Join(g.cfg.Topics, ", ")))
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

// Leave gives up the partitions at once, after OnRevoked, and closes the member. For a static member the client sends no leave
// request, and its partitions would be idle for a session. So Leave sends it, and only after the client has ended, because the
// client would join again. A member that was fenced sends nothing: its name belongs to another process.
func (g *Group) Leave(ctx context.Context) error {
	// The client waits for a rebalance that is under way, which may wait for a dead member. It gets half of the time, which leaves the
	// other half for the leave request.
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
		err = g.cluster.leave(ctx, g.cfg.Group, g.cfg.InstanceID, member)
	}
	if err != nil {
		return fmt.Errorf("leave group %s: %w", g.cfg.Group, fromClient(err))
	}
	return nil
}

// Close ends the member without telling the group, as a crash would.
func (g *Group) Close() {
	closeClient(g.client, g.cancel)
	// The client's last act is to poll, and what that poll discards would block one of its goroutines forever.
	g.client.AllowRebalance()
	<-g.asked
}

// CommittedOffsets returns the offsets that a group has committed.
func (c *Cluster) CommittedOffsets(ctx context.Context, group string) (Offsets, error) {
	resp, err := committed(ctx, c, group)
	if err != nil {
		return nil, err
	}
	out := make(Offsets)
	resp.Each(func(o kadm.OffsetResponse) {
		set(out, place{o.Topic, o.Partition}, o.At)
	})
	return out, nil
}

func committed(ctx context.Context, c *Cluster, group string) (resp kadm.OffsetResponses, err error) {
	err = retry(ctx, func() (err error) {
		if resp, err = c.admin.FetchOffsets(ctx, group); err == nil {
			err = resp.Error()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, denied(c, err, opDescribe, "", group))
	}
	return resp, nil
}
