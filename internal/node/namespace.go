package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// auditEvery is how often the topics' settings are looked at again: people change them, and seldom.
const auditEvery = time.Hour

// openNamespace makes or reads the namespace's first record and audits its topics.
func (n *Node) openNamespace(ctx context.Context) error {
	if err := n.cfg.Cluster.Ping(ctx); err != nil {
		return fmt.Errorf("reach the brokers: %w", err)
	}
	var err error
	if n.producer, err = kafka.NewProducer(n.cfg.Cluster); err != nil {
		return err
	}
	if n.voice, err = kafka.NewProducer(n.cfg.Cluster); err != nil {
		return err
	}
	if err := n.followDefinitions(ctx); err != nil {
		return err
	}
	exists, err := n.readNamespace()
	if err != nil {
		return err
	}
	n.partitions = n.cfg.Partitions
	if exists {
		n.partitions = n.namespace.Partitions
		if err := n.refuseMissing(ctx); err != nil {
			return err
		}
	}
	if err := n.ensureTopics(ctx); err != nil {
		return err
	}
	if !exists {
		if err := n.refuseOrphans(ctx); err != nil {
			return err
		}
		// The record comes last: where it stands, all topics have been there.
		if err := n.createNamespace(ctx); err != nil {
			return err
		}
	}
	if n.cfg.PartitionsSet && n.cfg.Partitions != n.partitions {
		return fmt.Errorf("namespace %s has %d partitions, fixed when it was made; --partitions %d needs another --namespace (for dev: another --data)", n.cfg.Namespace, n.partitions, n.cfg.Partitions)
	}
	return nil
}

// followDefinitions makes the topic of definitions where it is missing, and reads it to its end.
func (n *Node) followDefinitions(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, n.cfg.Cluster, n.topics.Base(1)[0]); err != nil {
		return fmt.Errorf("make the topics of namespace %s: %w", n.cfg.Namespace, err)
	}
	n.catalog = newCatalog(n.cfg.Cluster, n.topics.Definitions(), n.cfg.Logger)
	followCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stopCatalog = stop
	n.catalogEnd.Go(func() { _ = n.catalog.Run(followCtx) })
	return n.catalog.upToNow(ctx)
}

// readNamespace returns whether the namespace exists.
func (n *Node) readNamespace() (bool, error) {
	var ok bool
	if n.namespace, ok = n.catalog.Namespace(); ok && n.namespace.Format > events.FormatVersion {
		return true, fmt.Errorf("namespace %s has format %d: %w", n.cfg.Namespace, n.namespace.Format, events.ErrReaderTooOld)
	}
	return ok, nil
}

// refuseMissing refuses a namespace that has lost a topic of which nothing may be lost. Made anew and empty, it would
// look like a namespace in which nothing ever happened.
func (n *Node) refuseMissing(ctx context.Context) error {
	for _, topic := range []string{n.topics.Events(), n.topics.Submissions(), n.topics.Reports()} {
		_, err := n.cfg.Cluster.Partitions(ctx, topic)
		if errors.Is(err, kafka.ErrUnknownTopic) {
			return fmt.Errorf("topic %s of namespace %s is gone, and with it what was accepted: restore it from a copy, or begin another --namespace (or delete all topics of this one)", topic, n.cfg.Namespace)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseOrphans refuses facts without a namespace: their definitions topic was deleted. A new namespace would give the
// steps that are under way other identifiers, and services would do them again.
func (n *Node) refuseOrphans(ctx context.Context) error {
	of := kafka.Partitions{}
	for p := range n.partitions {
		of[n.topics.Events()] = append(of[n.topics.Events()], p)
	}
	ends, err := n.cfg.Cluster.EndOffsets(ctx, of)
	if err != nil {
		return err
	}
	for _, end := range ends[n.topics.Events()] {
		if end > 0 {
			return fmt.Errorf("topic %s holds facts, and %s, which names their namespace, is empty: restore it from a copy, or begin another --namespace (or delete all topics of this one)",
				n.topics.Events(), n.topics.Definitions())
		}
	}
	return nil
}

func (n *Node) ensureTopics(ctx context.Context) error {
	specs := n.topics.Base(n.partitions)
	if err := kafka.EnsureTopics(ctx, n.cfg.Cluster, specs...); err != nil {
		return fmt.Errorf("make the topics of namespace %s: %w", n.cfg.Namespace, err)
	}
	return kafka.Audit(ctx, n.cfg.Cluster, specs...)
}

func (n *Node) createNamespace(ctx context.Context) error {
	ns := scheduler.Namespace{ID: uuid.NewString(), Partitions: n.cfg.Partitions, Format: events.FormatVersion}
	r, err := scheduler.EncodeNamespace(ns, events.Subject{ID: ns.ID, Source: "/" + n.cfg.Namespace, Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	r.Topic = n.topics.Definitions()
	if _, err := n.producer.ProduceSync(ctx, r); err != nil {
		return fmt.Errorf("write the namespace's first record: %w", err)
	}
	if err := n.catalog.upToNow(ctx); err != nil {
		return err
	}
	// Another node's record may be the first: that one counts.
	if ok, err := n.readNamespace(); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("the definitions topic of namespace %s does not begin with its first record", n.cfg.Namespace))
	}
	n.partitions = n.namespace.Partitions
	return kafka.Audit(ctx, n.cfg.Cluster, n.topics.Base(n.partitions)...)
}

// audit looks at the topics' settings every so often. What it finds cannot be mended by stopping, since the brokers
// delete without us: it is said loudly, and the node is not ready until it is mended.
func (n *Node) audit(ctx context.Context) error {
	ticks := time.NewTicker(auditEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		err := kafka.Audit(ctx, n.cfg.Cluster, n.topics.Base(n.partitions)...)
		var found *kafka.AuditError
		switch {
		case errors.As(err, &found):
			n.cfg.Logger.Error("topics have settings that could lose facts", "error", err)
			n.auditFound.Store(worse(found))
		case err == nil:
			n.auditFound.Store(nil)
		case ctx.Err() == nil:
			n.cfg.Logger.Warn("the topics' settings cannot be read; they are looked at again in an hour", "error", err)
		}
	}
}

// worse leaves out what comes of adding brokers: fewer copies than there could be are no worse than before.
func worse(found *kafka.AuditError) *kafka.AuditError {
	var left []kafka.TopicProblem
	for _, p := range found.Problems {
		if p.Setting != kafka.SettingReplication {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &kafka.AuditError{Problems: left}
}
