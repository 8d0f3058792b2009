package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// openKeys binds the keys to the namespace, and makes their topic. If the topic was lost, it is not made again: it would look like one in which no key was
// ever made. A node without a key that would decide about sealed tasks is refused: it could evaluate no expression of theirs.
func (n *Node) openKeys(ctx context.Context) error {
	if n.cfg.Keys != nil {
		if err := n.cfg.Keys.Bind(ctx, n.ns.record.ID); err != nil {
			return err
		}
		return n.guardKeys(ctx)
	}
	if !n.cfg.Roles.Owner {
		return nil
	}
	if there, err := n.ns.hasKeys(ctx); err != nil || !there {
		return err
	}
	t := sealing.NewTopic(n.cfg.Cluster, n.ns.name, n.cfg.Logger)
	err := t.Read(ctx)
	if _, denied := errors.AsType[*kafka.DeniedError](err); denied {
		return nil // who may not read it has no business with it, and what is sealed is refused later
	}
	if err != nil {
		return err
	}
	if !t.Empty() || n.ns.catalog.KeysMade() {
		return fmt.Errorf("namespace %s seals what its tasks hold, and this node has no key, so it could not decide about them: start it with the key file of the other nodes (--seal-key-file)", n.ns.name)
	}
	return nil
}

// guardKeys refuses a topic of keys that was lost, makes one that never was, and marks the namespace if it has keys.
func (n *Node) guardKeys(ctx context.Context) error {
	mark := keysMark{n.ns, n.producer}
	n.cfg.Keys.Guard(mark)
	if err := n.cfg.Keys.Lost(ctx); err != nil {
		return err
	}
	if n.cfg.Keys.Topic().Empty() {
		return n.cfg.Keys.Create(ctx)
	}
	if mark.Marked() {
		return nil
	}
	return mark.Mark(ctx)
}

// keysMark remembers in the definitions that the namespace has had a key.
type keysMark struct {
	ns       *namespace
	producer *kafka.Producer
}

// Marked implements sealing.Mark.
func (m keysMark) Marked() bool { return m.ns.catalog.KeysMade() }

// Mark implements sealing.Mark.
func (m keysMark) Mark(ctx context.Context) error {
	r := scheduler.EncodeKeysMade(events.Subject{ID: uuid.NewString(), Source: "/" + m.ns.name, Time: events.At(time.Now())})
	_, err := m.ns.define(ctx, m.producer, "that there are keys", r)
	return err
}

// hasKeys says whether the namespace has a topic of keys. It looks in the list of all topics, which has only those that we may see: the client
// remembers a refusal of a topic that it asked for by name, and then fails to list brokers too.
func (s *namespace) hasKeys(ctx context.Context) (bool, error) {
	list, err := s.cluster.ListTopics(ctx, s.topics.Keys())
	return slices.Contains(list, s.topics.Keys()), err
}

// readKeys calls yield for each record of the topic of keys. If this node may not read the topic, there are none.
func (s *namespace) readKeys(ctx context.Context, yield func(events.Record) error) error {
	if there, err := s.hasKeys(ctx); err != nil || !there {
		return err
	}
	err := s.cluster.ReadRange(ctx, s.topics.Keys(), 0, 0, -1, yield)
	if _, denied := errors.AsType[*kafka.DeniedError](err); denied {
		return nil
	}
	return err
}

// programKeys are the keys by which expressions see sealed values; nil without any.
func (n *Node) programKeys() scheduler.Keys {
	if n.cfg.Keys == nil {
		return nil
	}
	return n.cfg.Keys
}

// ownerKeys are the keys by which owners seal; nil without any.
func (n *Node) ownerKeys() supervisor.Keys {
	if n.cfg.Keys == nil {
		return nil
	}
	return n.cfg.Keys
}
