package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/scheduler"
)

// auditEvery is how often the topics' settings are checked: people seldom change them.
const auditEvery = time.Hour

// namespace is the namespace that a node serves: its topics, its first record, its definitions.
type namespace struct {
	name     string
	cluster  *kafka.Cluster
	topics   kafka.Topics
	producer *kafka.Producer
	catalog  *catalog
	bodies   bodies
	log      *slog.Logger
	// past says that this is a copy of the past.
	past bool
	// record is the namespace's first record. partitions is its number of partitions, or the number for a new
	// namespace.
	record     scheduler.Namespace
	partitions int32
	// maxLevel is the highest level that this build understands.
	maxLevel int
	// problems is the result of the last audit, nil for none.
	problems atomic.Pointer[doctor.AuditError]
	// warned is the last warning of inspect, "" for none. Owned by open, then by audit.
	warned string

	// stop ends the reading of definitions that open started.
	stop    context.CancelFunc
	reading sync.WaitGroup
}

func newNamespace(cfg *Config) *namespace {
	s := &namespace{
		name: cfg.Namespace, cluster: cfg.Cluster, topics: kafka.Topics{Namespace: cfg.Namespace}, log: cfg.Logger, partitions: cfg.Partitions, maxLevel: cfg.maxLevel, past: cfg.Past != 0,
	}
	if cfg.FS == nil {
		s.bodies.dir = cfg.Dir
	}
	return s
}

// open reads the namespace's first record, or creates the namespace, and audits its topics.
func (s *namespace) open(ctx context.Context) error {
	if err := s.readDefinitions(ctx); err != nil {
		return err
	}
	exists, err := s.read()
	if err != nil {
		return err
	}
	if exists {
		if err := s.refuseMissing(ctx); err != nil {
			return err
		}
	}
	if err := s.halfCopied(exists); err != nil {
		return err
	}
	if err := s.closed(); err != nil && !s.past { // the past of a closed namespace can be read

		return err
	}
	if err := s.ensureTopics(ctx); err != nil {
		return err
	}
	if exists {
		return nil
	}
	if err := s.refuseOrphans(ctx); err != nil {
		return err
	}
	// The record comes last: it proves that all topics were there.
	return s.create(ctx)
}

// close ends the reading of definitions.
func (s *namespace) close() {
	if s.stop != nil {
		s.stop()
		s.reading.Wait()
	}
	s.bodies.close()
}

// all returns all partitions of a topic.
func (s *namespace) all(topic string) kafka.Partitions {
	list := make([]int32, s.partitions)
	for p := range s.partitions {
		list[p] = p
	}
	return kafka.Partitions{topic: list}
}

// readDefinitions creates the topic of definitions if it is missing, and reads it to its end.
func (s *namespace) readDefinitions(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, s.cluster, s.topics.Base(1)[0]); err != nil {
		return fmt.Errorf("make the topics of namespace %s: %w", s.name, err)
	}
	if s.catalog == nil { // an earlier try may have started the reading already
		s.catalog = newCatalog(s.cluster, s.topics.Definitions(), s.log, &s.bodies)
		s.catalog.maxLevel = s.maxLevel
		ctxRead, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stop = stop
		s.reading.Go(func() { _ = s.catalog.Run(ctxRead) })
	}
	return s.catalog.upToNow(ctx)
}

// read returns whether the namespace exists.
func (s *namespace) read() (bool, error) {
	var ok bool
	if s.record, ok = s.catalog.Namespace(); !ok {
		return false, nil
	}
	if s.record.Format > events.FormatVersion {
		return true, fmt.Errorf("namespace %s has format %d: %w", s.name, s.record.Format, events.ErrReaderTooOld)
	}
	s.partitions = s.record.Partitions
	return true, nil
}

// refuseMissing refuses a namespace that has lost a topic whose records must never be lost. If the topic were recreated empty,
// the namespace would look like one in which nothing ever happened.
func (s *namespace) refuseMissing(ctx context.Context) error {
	topics := []string{s.topics.Events()}
	for _, in := range events.Inputs {
		topics = append(topics, s.topics.Input(in))
	}
	for _, topic := range topics {
		_, err := s.cluster.Partitions(ctx, topic)
		if errors.Is(err, kafka.ErrUnknownTopic) {
			return fmt.Errorf("topic %s of namespace %s is gone, and with it what was accepted: restore it from a copy, or begin another --namespace (or delete all topics of this one)", topic, s.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseOrphans refuses facts without a namespace: their definitions topic was deleted. A new namespace would give the
// running steps other identifiers, and services would do them again.
func (s *namespace) refuseOrphans(ctx context.Context) error {
	ends, err := s.cluster.EndOffsets(ctx, s.all(s.topics.Events()))
	if err != nil {
		return err
	}
	for _, end := range ends[s.topics.Events()] {
		if end > 0 {
			return fmt.Errorf("topic %s holds facts, and %s, which names their namespace, is empty: restore it from a copy, or begin another --namespace (or delete all topics of this one)",
				s.topics.Events(), s.topics.Definitions())
		}
	}
	return nil
}

func (s *namespace) ensureTopics(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, s.cluster, s.topics.Base(s.partitions)...); err != nil {
		return fmt.Errorf("make the topics of namespace %s: %w", s.name, err)
	}
	return s.inspect(ctx)
}

func (s *namespace) create(ctx context.Context) error {
	ns := scheduler.Namespace{ID: uuid.NewString(), Partitions: s.partitions, Format: events.FormatVersion}
	r, err := scheduler.EncodeNamespace(ns, events.Subject{ID: ns.ID, Source: "/" + s.name, Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	r.Topic = s.topics.Definitions()
	if _, err := s.producer.ProduceSync(ctx, r); err != nil {
		return fmt.Errorf("write the namespace's first record: %w", err)
	}
	if err := s.catalog.upToNow(ctx); err != nil {
		return err
	}
	// Another node's record may come first, and then that record counts.
	if ok, err := s.read(); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the definitions topic of namespace %s does not begin with its first record", s.name))
	}
	return s.inspect(ctx)
}

// inspect audits the topics. It warns once about topics with fewer replicas than new ones would get, because they stay that way
// until somebody adds replicas.
func (s *namespace) inspect(ctx context.Context) error {
	few, err := doctor.Inspect(ctx, s.cluster, s.topics.Base(s.partitions)...)
	if few.What != "" && few.What != s.warned {
		s.warned = few.What
		s.log.Warn(few.What, "remedy", few.Remedy)
	}
	return err
}

// audit checks the topics' settings now and then. Stopping would not help, since the brokers delete records without the node:
// problems are logged as errors, and the node is not ready until they are gone.
func (s *namespace) audit(ctx context.Context) error {
	return every(ctx, auditEvery, func() {
		err := s.inspect(ctx)
		var found *doctor.AuditError
		switch {
		case errors.As(err, &found):
			s.log.Error("topics have settings that could lose facts", "error", err)
			s.problems.Store(found)
		case err == nil:
			s.problems.Store(nil)
		case ctx.Err() == nil:
			s.log.Warn("the topics' settings cannot be read; they are checked again in an hour", "error", err)
		}
	})
}

// define appends a record to the definitions and reads it back. what names it in an error, and at is its offset.
func (s *namespace) define(ctx context.Context, p *kafka.Producer, what string, r events.Record) (at int64, err error) {
	r.Topic = s.topics.Definitions()
	offsets, err := p.ProduceSync(ctx, r)
	if err != nil {
		return 0, noAnswer(fmt.Errorf("record %s: %w", what, err))
	}
	return offsets[0], noAnswer(s.catalog.upTo(ctx, offsets[0]+1))
}
