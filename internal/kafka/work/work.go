package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// closeWait bounds how long it takes to leave all the groups, which happens in parallel. A group whose coordinator does not
// answer drops the member when its session expires.
const closeWait = 2 * time.Second

// Broker is a cluster that agents use.
type Broker struct {
	cluster *kafka.Cluster
	// idle is how often an idle agent calls its broker. Zero: as often as the defaults of a group say.
	idle time.Duration
}

// Over returns the broker of a connected cluster, which the caller closes.
func Over(cluster *kafka.Cluster) Broker { return Broker{cluster: cluster} }

// Calm returns a broker whose agents call it at this interval while they have nothing to do, and learn that late of a rebalance. It is for
// virtual time, in which idle calls are much of what an hour costs.
func (b Broker) Calm(idle time.Duration) Broker { return Broker{cluster: b.cluster, idle: idle} }

// Open implements transport.Broker. Each agent is a static member of its group under the instance's name. So a quick restart under a
// configured name does not move any partition, and a silent instance can be removed by the name in its heartbeats before its session
// ends.
func (b Broker) Open(ctx context.Context, o transport.Opening) (_ *transport.Link, err error) {
	topics := kafka.Topics{Namespace: o.Namespace}
	partitions, err := b.cluster.Partitions(ctx, topics.Submissions())
	if err != nil {
		return nil, fmt.Errorf("find namespace %s: %w", o.Namespace, err)
	}
	var specs []kafka.TopicSpec
	for _, name := range o.Agents {
		specs = append(specs, topics.WorkSpec(name, partitions))
	}
	if err := kafka.EnsureTopics(ctx, b.cluster, specs...); err != nil {
		return nil, err
	}
	producer, err := kafka.NewProducer(b.cluster)
	if err != nil {
		return nil, err
	}
	var sources []*groupSource
	link := &transport.Link{Sources: map[string]transport.Source{}, Sink: producerSink{producer}, Close: func() {
		leave(sources)
		producer.Close()
	}}
	for _, name := range o.Agents {
		s := &groupSource{
			cluster: b.cluster, topic: topics.Work(name), others: namesakes{b.cluster, topics.Presence(), o.Instance, events.At(o.Started)},
			config: kafka.GroupConfig{Group: kafka.Groups{Namespace: o.Namespace}.Agents(name), Topics: []string{topics.Work(name)}, InstanceID: o.Instance, Heartbeat: b.idle, MaxWait: b.idle},
		}
		if err := s.join(nil); err != nil {
			link.Close()
			return nil, err
		}
		sources = append(sources, s)
		link.Sources[name] = s
	}
	return link, nil
}

func leave(sources []*groupSource) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var leaving sync.WaitGroup
	for _, s := range sources {
		leaving.Go(func() { s.leave(ctx) })
	}
	leaving.Wait()
}

// producerSink is the shared producer as a Sink.
type producerSink struct{ producer *kafka.Producer }

// Produce looks at ctx only while it waits for room in the producer's buffer. A record that the producer has accepted is sent
// in any case. Watching the context of each record would cost as much as sending it, and the consumer itself gives up a report
// that is not answered in time.
func (s producerSink) Produce(ctx context.Context, r events.Record, done func(error)) {
	full := false
	s.producer.TryProduce(context.Background(), r, func(_ int32, _ int64, err error) {
		if errors.Is(err, kafka.ErrBufferFull) {
			full = true // before TryProduce returns
			return
		}
		done(err)
	})
	if full {
		s.producer.Produce(ctx, r, func(_ int32, _ int64, err error) { done(err) })
	}
}
