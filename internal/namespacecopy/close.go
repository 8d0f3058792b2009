package namespacecopy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/scheduler"
)

// freshID returns the identifier of a claim.
func freshID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return events.ShortID(b[:])
}

// closeLog folds the log and closes it. Whoever owned a partition is deposed by the claim, and nobody claims it again.
func (c *copying) closeLog(ctx context.Context, s *source) error {
	if err := c.refuseAlive(ctx); err != nil {
		return err
	}
	c.say("reading the log of %s", c.From)
	if err := s.fold(ctx, c.Dir, c.say); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := c.checkInputs(ctx, s); err != nil {
		return err
	}
	if err := s.mark(ctx, events.NamespaceClosed{To: c.To.String()}, c.Now()); err != nil {
		return err
	}
	c.say("%s is closed", c.From)
	if err := s.readKeys(ctx); err != nil {
		return err
	}
	return s.readDefinitions(ctx) // nobody writes there any more
}

// Reopen takes back that a namespace was closed. Whoever calls it makes sure that the copy does not run.
func Reopen(ctx context.Context, cfg Config) (err error) {
	c := &copying{Config: cfg}
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "sagalog-reopen-"); err != nil {
			return err
		}
	}
	s := &source{log: &c.From, name: c.From.String()}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(c.Dir)) }()
	if err := s.fold(ctx, c.Dir, c.say); err != nil {
		return err
	}
	closed := scheduler.ClosedOf(s.catalog) != nil
	for _, p := range s.parts {
		closed = closed || p.state.Partition.Closed != nil
	}
	if !closed {
		return fmt.Errorf("namespace %s is not closed: there is nothing to reopen", s.name)
	}
	return s.mark(ctx, events.NamespaceClosed{Over: true}, c.Now())
}

// mark records in the definitions and in each partition that the namespace is closed, or open again. A namespace opens in its definitions last, and
// closes there first: a node that starts meanwhile refuses.
func (s *source) mark(ctx context.Context, b events.NamespaceClosed, now time.Time) error {
	producer, err := kafka.NewProducer(s.log.Cluster)
	if err != nil {
		return err
	}
	defer producer.Close()
	if !b.Over {
		if err := s.markDefinitions(ctx, producer, b, now); err != nil {
			return err
		}
	}
	for _, p := range s.parts {
		if err := s.markPartition(ctx, producer, p, b, now); err != nil {
			return fmt.Errorf("topic %s partition %d: %w", s.log.topics().Events(), p.number, err)
		}
	}
	if b.Over {
		return s.markDefinitions(ctx, producer, b, now)
	}
	return nil
}

func (s *source) markDefinitions(ctx context.Context, producer *kafka.Producer, b events.NamespaceClosed, now time.Time) error {
	r, err := scheduler.EncodeClosed(b, events.Subject{ID: freshID(), Source: sourceOf(s.log.Namespace), Time: events.At(now)})
	if err != nil {
		return err
	}
	r.Topic = s.log.topics().Definitions()
	_, err = producer.ProduceSync(ctx, r)
	return err
}

// markPartition claims the partition and records the fact, and reads both back. It reads back the claim first: an owner may have appended something since
// the log was folded, and the records behind the claim must fit that. Records that cannot be folded would make the log unreadable.
func (s *source) markPartition(ctx context.Context, producer *kafka.Producer, p *part, b events.NamespaceClosed, now time.Time) error {
	claim := freshID()
	r, err := claiming(p.state, claim, events.At(now), s.log.Namespace)
	if err != nil {
		return err
	}
	if err := s.appendFacts(ctx, producer, p, r); err != nil {
		return err
	}
	if !claimed(p.state, claim) {
		return s.meanwhile(p)
	}
	records, err := closing(p.state, b, events.At(now), s.log.Namespace)
	if err != nil {
		return err
	}
	if err := s.appendFacts(ctx, producer, p, records...); err != nil {
		return err
	}
	if !marks(p.state, claim, b) {
		return s.meanwhile(p)
	}
	return nil
}

// appendFacts appends to the log of a partition, and folds it to its end.
func (s *source) appendFacts(ctx context.Context, producer *kafka.Producer, p *part, records ...events.Record) error {
	if _, err := producer.ProduceSync(ctx, records...); err != nil {
		return err
	}
	return s.foldOn(ctx, p)
}

func (s *source) meanwhile(p *part) error {
	return fmt.Errorf("node %s has claimed it meanwhile: stop all nodes of namespace %s, and try again", p.state.Partition.Owner, s.name)
}

// claimed says whether the claim is current.
func claimed(state *events.State, claim string) bool {
	//mutant:copier-reads-its-claim-back
	return state.Partition.Epoch.ID == claim
}

// marks says whether a partition was closed, or opened, behind that claim. If somebody else has claimed it, the fact may be void.
func marks(state *events.State, claim string, b events.NamespaceClosed) bool {
	p := &state.Partition
	//mutant:closing-is-read-back
	return p.Epoch.ID == claim && (p.Closed == nil) == b.Over
}

// claiming returns the record with which a copy claims a partition.
func claiming(state *events.State, id string, now events.Instant, namespace string) (events.Record, error) {
	at := &state.Partition
	claim := &events.PartitionClaimed{ID: id, Prev: at.Epoch.ID, Owner: events.CopyOwner, Reader: events.FormatVersion}
	return encodeFact(&events.Fact{Time: max(now, at.Time), Body: claim}, at.Partition, namespace)
}

// closing returns the records with which a partition that was claimed is closed, or opened again. The state is that behind the claim.
func closing(state *events.State, b events.NamespaceClosed, now events.Instant, namespace string) ([]events.Record, error) {
	at := &state.Partition
	var facts []*events.Fact
	add := func(task string, body events.Body) {
		n := at.NextSequence + uint64(len(facts))
		cause := events.CauseFact(events.Position{Epoch: at.Epoch, Sequence: max(n, 1) - 1})
		facts = append(facts, &events.Fact{Epoch: at.Epoch, Sequence: n, Time: max(now, at.Time), Task: task, Cause: cause, Body: body})
	}
	//mutant:half-carried-is-completed-before-closing
	if at.HalfCarried() { // only the next record of the carry may follow
		if err := completeHalf(state, add); err != nil {
			return nil, err
		}
	}
	add("", &b)
	records := make([]events.Record, len(facts))
	for i, f := range facts {
		var err error
		if records[i], err = encodeFact(f, at.Partition, namespace); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func encodeFact(f *events.Fact, partition int32, namespace string) (events.Record, error) {
	r, err := events.EncodeFact(f, partition, sourceOf(namespace))
	r.Topic, r.Partition = kafka.Topics{Namespace: namespace}.Events(), partition
	return r, err
}

// completeHalf adds the rest of an entity or a task that is half carried. The state is not changed: what follows is read back.
func completeHalf(state *events.State, add func(task string, body events.Body)) error {
	list, task, err := events.RestOfCarried(state)
	if err != nil {
		return err
	}
	for i := range list {
		add(task, &list[i])
	}
	return nil
}

func sourceOf(namespace string) string {
	return "/" + namespace + "/" + url.PathEscape(events.CopyOwner)
}

// aliveWithin is longer than a node is silent between two heartbeats, unless it hangs.
const aliveWithin = 3 * time.Second

// refuseAlive refuses a namespace one of whose nodes sends heartbeats.
func (c *copying) refuseAlive(ctx context.Context) error {
	before, err := heartbeats(ctx, c.From)
	if err != nil || len(before) == 0 {
		return err
	}
	if !pause.For(ctx, aliveWithin) {
		return context.Cause(ctx)
	}
	after, err := heartbeats(ctx, c.From)
	if err != nil {
		return err
	}
	for node, seen := range after {
		if seen != before[node] {
			return fmt.Errorf("%s of namespace %s is alive: stop all its nodes, and the producers that write to its topics, then copy", strings.Replace(node, "/", " ", 1), c.From)
		}
	}
	return nil
}

// heartbeats returns the last heartbeat of each node that has not said goodbye.
func heartbeats(ctx context.Context, p Place) (map[string]events.Instant, error) {
	seen := map[string]events.Instant{}
	topic := p.topics().Presence()
	from, err := p.Cluster.StartOffset(ctx, topic, 0)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return nil, fmt.Errorf("namespace %s does not exist: topic %s is missing", p, topic)
	}
	if err != nil {
		return nil, err
	}
	err = p.Cluster.ReadRange(ctx, topic, 0, from, -1, func(r events.Record) error {
		if r.Control {
			return nil
		}
		if r.Value == nil {
			delete(seen, string(r.Key))
			return nil
		}
		if b, err := events.DecodePresence(&r); err == nil && b.Kind == events.PresenceNode && b.SeenAt != 0 {
			seen[string(r.Key)] = b.SeenAt
		}
		return nil
	})
	return seen, err
}
