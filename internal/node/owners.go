package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// owners are the shells of all partitions; none on a node without the role owner. Each waits until its partition is
// assigned.
type owners struct {
	shells []*supervisor.Shell
	// effects sends only what the owners send: if it shared a buffer with submissions, those would wait while effects cannot be
	// sent. Like inputs, it is nil for a node that owns nothing.
	effects   *kafka.Producer
	inputs    *inputs
	metrics   *taskMetrics
	takeovers *takeoverMetrics
	stats     *stats
	noTopic   missingTopics
	// leaving says that this node is giving up its partitions.
	leaving atomic.Bool
}

// flushEvery is how often a busy partition writes its state: too short for a person to notice, and long enough that a task is
// written a few times and not once for each of its facts.
const flushEvery = 50 * time.Millisecond

// pauseLogAbove is the number of facts a second above which an owner does not read its own log. Below it, reading costs
// little and shows a newer owner at once.
const pauseLogAbove = 500

// openOwners creates the shells.
func (n *Node) openOwners(ctx context.Context) error {
	n.trimmer = newTrimmer(n)
	if !n.cfg.Roles.Owner {
		return nil
	}
	id, err := uuid.Parse(n.ns.record.ID)
	if err != nil {
		return fmt.Errorf("the ID of namespace %s: %w", n.ns.name, err)
	}
	ids := map[string]projector.TopicID{n.ns.topics.Events(): n.store.topic}
	for _, in := range events.Inputs {
		name := n.ns.topics.Input(in)
		if ids[name], err = n.ns.cluster.TopicID(ctx, name); err != nil {
			return err
		}
	}
	if n.owners.effects, err = kafka.NewProducer(n.ns.cluster); err != nil {
		return err
	}
	n.owners.inputs = newInputs(n.ns.cluster)
	metrics, err := newTaskMetrics(n.cfg.Registry, n.ns.catalog.Catalog)
	if err != nil {
		return err
	}
	takeovers, err := newTakeoverMetrics(n.cfg.Registry, n.liveness, n.store.takeovers.tell)
	if err != nil {
		return err
	}
	n.owners.metrics, n.owners.takeovers = metrics, takeovers
	shared, recorded := scheduler.NewSharedWith(n.programKeys()), n.ns.catalog.Settings()
	marks := &marks{dir: filepath.Join(n.cfg.Dir, "marks"), log: n.cfg.Logger}
	for p := range n.ns.partitions {
		store := newPartitionStore(n.store, p)
		var trace func(*events.Task, *events.Fact)
		if n.cfg.Traces != nil {
			trace = n.cfg.Traces.Facts(p)
		}
		store.record = n.store.recordAt(context.WithoutCancel(ctx), p)
		owner, err := supervisor.NewOwner(supervisor.Config{
			Partition: p, Partitions: n.ns.partitions, Node: n.cfg.Name, Namespace: n.ns.name, NamespaceID: id,
			Settings: recorded.Settings, SettingsOffset: recorded.Offset, Level: recorded.Level, MaxLevel: n.cfg.maxLevel,
			Entropy: entropy, Keys: n.ownerKeys(), FlushEvery: flushEvery, Awaited: n.store.Partition(p).Awaited, PauseLogAbove: pauseLogAbove, Deleted: n.ns.catalog.Deleted, Durable: func(t *events.Task, f *events.Fact) {
				metrics.count(t, f)
				if trace != nil {
					trace(t, f)
				}
				n.owners.stats.count(t, f)
				n.ns.catalog.acts.fact(f)
				warnOfCorrection(n.cfg.Logger, p, f)
			},
			Marked: marks.read(p), Mark: func(m supervisor.Mark) { marks.keep(p, m) },
		}, mortalScheduler(shared.New()), store)
		if err != nil {
			return err
		}
		shell, err := supervisor.NewShell(owner, supervisor.ShellConfig{
			Log: mortalLog(&partitionLog{
				cluster: n.ns.cluster, topics: n.ns.topics, partition: p, effects: n.owners.effects, catalog: n.ns.catalog, inputs: n.owners.inputs, ids: ids, appends: takeovers.appends, log: n.cfg.Logger,
			}),
			Committer: mortalCommitter(store), Logger: n.cfg.Logger, Tick: n.cfg.Tick, Now: n.cfg.Now, Doubt: n.doubt(), Agreed: n.agreed(),
			Repair: func(cause error) error { return n.store.repair(context.WithoutCancel(ctx), p, cause) }, Alerted: metrics.alerted, TookOver: takeovers.tookOver(p), Trim: n.trimmer.answer(p),
		})
		if err != nil {
			return err
		}
		shell.SetOffers(map[string]supervisor.Offer{}) // until the first heartbeats are read, no agent is known to have its topic
		n.owners.shells = append(n.owners.shells, shell)
	}
	return nil
}

// warnOfCorrection says that the time of a partition went back.
func warnOfCorrection(log *slog.Logger, partition int32, f *events.Fact) {
	if b, ok := f.Body.(*events.TimeCorrected); ok && f.Task == "" && !b.Settled {
		log.Warn("the time of the log was ahead, since the clock of an owner was wrong, and is corrected", "partition", partition, "to", b.To)
	}
}

func entropy() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return b
}

// status returns the status of a partition's owner, the zero Status on a node that owns nothing.
func (o *owners) status(p int32) (status supervisor.Status) {
	if int(p) < len(o.shells) {
		status, _ = o.shells[p].Status()
	}
	return status
}

// owns says whether this node decides for a partition.
func (o *owners) owns(p int32) bool { return !o.leaving.Load() && o.status(p).Owning }

// takesOver says that the partition's shell is folding it, about to own it.
func (o *owners) takesOver(p int32) bool {
	switch o.status(p).Phase {
	case "loading", "claiming", "resuming":
		return true
	}
	return false
}

// owned returns the partitions that this node owns.
func (o *owners) owned() []int32 {
	var list []int32
	for p := range o.shells {
		if o.owns(int32(p)) {
			list = append(list, int32(p))
		}
	}
	return list
}

// delayed says which effects wait for brokers that do not take them.
func (o *owners) delayed() (list []string) {
	for p := range o.shells {
		s := o.status(int32(p))
		for _, d := range s.Delayed {
			list = append(list, fmt.Sprintf("partition %d: an effect for %s has waited for %s", p, d.Topic, s.Time.Sub(d.Since).Round(time.Second)))
		}
	}
	return list
}

// setOffers tells the owners what the agents offer.
func (o *owners) setOffers(all offers) {
	for p, shell := range o.shells {
		shell.SetOffers(all.to(int32(p), int32(len(o.shells))))
	}
}

// missing returns the operations that steps of this node's partitions wait for and no live instance offers, each with the time
// when the first of these steps began to wait.
func (o *owners) missing() map[events.Call]events.Instant {
	since := map[events.Call]events.Instant{}
	for p := range o.shells {
		for _, m := range o.status(int32(p)).Missing {
			if m.Behind {
				continue
			}
			of := m.Call()
			if first, ok := since[of]; !ok || m.Since < first {
				since[of] = m.Since
			}
		}
	}
	return since
}

// maxPublished bounds how many missing operations a heartbeat lists.
const maxPublished = 100

// published returns, for the node's heartbeat, the operations that steps of this node's partitions wait for, each with the
// earliest start of a wait.
func (o *owners) published() []events.Missing {
	var list []events.Missing
	for p := range o.shells {
		list = append(list, o.status(int32(p)).Missing...)
	}
	list = earliest(list)
	list = list[:min(len(list), maxPublished)]
	if why := o.noTopic.Load(); why != nil {
		for i := range list {
			list[i].NoTopic = (*why)[list[i].Agent]
		}
	}
	return list
}

// earliest sorts operations, and keeps the earliest start of a wait for each. Operations that no instance offers come before
// those that no broker takes requests for.
func earliest(list []events.Missing) []events.Missing {
	behind := func(m events.Missing) int {
		if m.Behind {
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b events.Missing) int {
		return cmp.Or(a.Call().Compare(b.Call()), behind(a)-behind(b), cmp.Compare(a.Since, b.Since))
	})
	return slices.CompactFunc(list, func(a, b events.Missing) bool { return a.Call() == b.Call() })
}
