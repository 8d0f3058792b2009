package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// MaxWorkTopics bounds the work topics of a namespace. With 8 partitions and 3 copies, 1,000 are 24,000 replicas, which three brokers
// bear; one definition of the largest size can name 2,000 agents.
const MaxWorkTopics = 1000

const (
	// workTopicsEvery is how often a node looks for agents that steps wait for. No step starts before an instance of its agent is there,
	// which has made the topic if it may.
	workTopicsEvery = time.Second
	// workTopicAgain is after how long a topic is looked for again that exists, or that could not be created.
	workTopicAgain = 30 * time.Second
	// workTopicWithin bounds the creation of one topic.
	workTopicWithin = 30 * time.Second
	// maxReason bounds the reason that a heartbeat carries; the log has it whole.
	maxReason = 200
)

// workTopics creates the work topic of an agent when a step first waits for it, so that a definition costs nothing on the brokers before
// a task needs it. An instance of the agent creates the topic at its start if it may, and otherwise waits for this.
type workTopics struct {
	ns       *namespace
	owners   *owners
	liveness *liveness
	limit    int
	log      *slog.Logger
	// again is when the topic of an agent is looked for again.
	again map[string]time.Time
}

// missingTopics says, by agent, why there is no work topic.
type missingTopics = atomic.Pointer[map[string]string]

// look creates the topics of the agents that steps of this node's partitions wait for, and of those with an instance that does not say
// that it reads one: steps may start at any moment.
func (w *workTopics) look(ctx context.Context) {
	waits := map[string]bool{}
	for of := range w.owners.missing() {
		waits[of.Agent] = true
	}
	for agent, o := range w.liveness.offers(w.ns.partitions) {
		if len(o.Targets) == 0 {
			waits[agent] = true
		}
	}
	maps.DeleteFunc(w.again, func(agent string, _ time.Time) bool { return !waits[agent] })
	why := map[string]string{}
	if known := w.owners.noTopic.Load(); known != nil {
		maps.Copy(why, *known)
	}
	maps.DeleteFunc(why, func(agent, _ string) bool { return !waits[agent] })
	maps.DeleteFunc(waits, func(agent string, _ bool) bool { return time.Now().Before(w.again[agent]) })
	if len(waits) > 0 {
		w.ensure(ctx, slices.Sorted(maps.Keys(waits)), why)
	}
	w.owners.noTopic.Store(&why)
}

// ensure creates the topics of agents that are missing, and notes why where it cannot.
func (w *workTopics) ensure(ctx context.Context, agents []string, why map[string]string) {
	list, err := w.ns.cluster.ListTopics(ctx, w.ns.topics.Work(""))
	if err != nil {
		w.log.Debug("the work topics cannot be listed; trying again", "error", err)
		return
	}
	have := len(list)
	for _, agent := range agents {
		if ctx.Err() != nil {
			return
		}
		w.again[agent] = time.Now().Add(workTopicAgain)
		spec := w.ns.topics.WorkSpec(agent, w.ns.partitions)
		if _, there := slices.BinarySearch(list, spec.Name); there {
			delete(why, agent)
			continue
		}
		if err := w.create(ctx, spec, have); err == nil {
			have++
			delete(why, agent)
			w.log.Info("a work topic is created, because steps wait for its agent", "agent", agent, "topic", spec.Name)
		} else if reason := events.Clip(err.Error(), maxReason); ctx.Err() == nil && why[agent] != reason {
			why[agent] = reason
			w.log.Warn("steps wait for an agent that has no work topic, and it cannot be created; trying again", "agent", agent, "error", err)
		}
	}
}

func (w *workTopics) create(ctx context.Context, spec kafka.TopicSpec, have int) error {
	if have >= w.limit {
		return fmt.Errorf("the namespace has %d work topics and may have %d: delete topics of agents that are gone, which `sagalog doctor` lists", have, w.limit)
	}
	ctx, cancel := context.WithTimeout(ctx, workTopicWithin)
	defer cancel()
	return kafka.EnsureTopics(ctx, w.ns.cluster, spec)
}

// refused says why the cluster would not create the first of the topics, nil if it would: a definition whose topics this node may not
// create is refused when it is applied, and not when its first task waits.
func (d *definitions) refused(ctx context.Context, specs []kafka.TopicSpec) error {
	if len(specs) == 0 {
		return nil
	}
	rf, err := d.ns.cluster.ReplicationFactor(ctx)
	if err != nil {
		return err
	}
	err = d.ns.cluster.CheckCreate(ctx, specs[0], rf)
	if refused, ok := errors.AsType[*kafka.CreateError](err); ok {
		return fmt.Errorf("the work topic of agent %q: %w", strings.TrimPrefix(specs[0].Name, d.ns.topics.Work("")), refused)
	}
	return err
}
