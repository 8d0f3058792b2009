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
type Broker struct{ cluster *kafka.Cluster }

// Over returns the broker of a connected cluster, which the caller closes.
func Over(cluster *kafka.Cluster) Broker { return Broker{cluster} }

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
	var groups []*kafka.Group
	link := &transport.Link{Sources: map[string]transport.Source{}, Sink: producerSink{producer}, Close: func() {
		leave(groups)
		producer.Close()
	}}
	for _, name := range o.Agents {
		topic := topics.Work(name)
		g, err := kafka.NewGroup(b.cluster, kafka.GroupConfig{
			Group: o.Namespace + ".agents." + name, Topics: []string{topic}, InstanceID: o.Instance,
		})
		if err != nil {
			link.Close()
			return nil, err
		}
		groups = append(groups, g)
		link.Sources[name] = groupSource{group: g, topic: topic, instance: o.Instance}
	}
	return link, nil
}

func leave(groups []*kafka.Group) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var leaving sync.WaitGroup
	for _, g := range groups {
		// The answer does not matter: a member that failed to leave is removed when its session expires.
		leaving.Go(func() { _ = g.Leave(ctx) })
	}
	leaving.Wait()
}

// groupSource is a member of a consumer group as a Source.
type groupSource struct {
	group           *kafka.Group
	topic, instance string
}

func (s groupSource) Poll(ctx context.Context, most int) ([]events.Record, error) {
	records, err := s.group.Poll(ctx, most)
	switch {
	case errors.Is(err, kafka.ErrFenced):
		err = &transport.FencedError{Instance: s.instance}
	case errors.Is(err, kafka.ErrClosed), errors.Is(err, kafka.ErrDenied), errors.Is(err, kafka.ErrRecreated):
		err = fmt.Errorf("%w: %w", transport.ErrClosed, err)
	}
	return records, err
}

func (s groupSource) Assigned(partition int32) transport.Assigned {
	from, lost := s.group.LostFrom(s.topic, partition)
	return transport.Assigned{
		Position: transport.Position(s.group.Mark(s.topic, partition)), Shared: s.group.Shared(s.topic, partition), Lost: lost, LostFrom: from,
	}
}

func (s groupSource) Confirm(ctx context.Context) (map[int32]int64, error) {
	held, err := s.group.Confirm(ctx)
	return held[s.topic], err
}

func (s groupSource) Commit(ctx context.Context, positions map[int32]transport.Position) (map[int32]transport.Position, error) {
	wanted := make(map[int32]kafka.Mark, len(positions))
	for p, m := range positions {
		wanted[p] = kafka.Mark(m)
	}
	stored, err := s.group.CommitMarks(ctx, kafka.Marks{s.topic: wanted})
	out := make(map[int32]transport.Position, len(positions))
	for p, m := range stored[s.topic] {
		out[p] = transport.Position(m)
	}
	return out, err
}

func (s groupSource) Partitions() []int32 { return s.group.Assigned()[s.topic] }

// producerSink is the shared producer as a Sink.
type producerSink struct{ producer *kafka.Producer }

// Produce looks at ctx only while it waits for room in the producer's buffer. A record that the producer has accepted is sent
// in any case. Watching the context of each record would cost as much as sending it, and the consumer itself gives up a report
// that is not answered in time.
func (s producerSink) Produce(ctx context.Context, r events.Record, done func(error)) {
	s.producer.TryProduce(context.Background(), r, func(_ int32, _ int64, err error) {
		if errors.Is(err, kafka.ErrBufferFull) {
			s.producer.Produce(ctx, r, func(_ int32, _ int64, err error) { done(err) })
			return
		}
		done(err)
	})
}
