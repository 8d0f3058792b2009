package namespacecopy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// readKeys reads the records of the topic of keys, if there is one.
func (s *source) readKeys(ctx context.Context) error {
	topic := s.log.topics().Keys()
	list, err := s.log.Cluster.ListTopics(ctx, topic)
	if err != nil || !slices.Contains(list, topic) {
		return err
	}
	return s.log.Cluster.ReadRange(ctx, topic, 0, 0, -1, func(r events.Record) error {
		if !r.Control {
			s.keys = append(s.keys, r)
		}
		return nil
	})
}

// checkKey refuses a task whose key is missing: its content would be lost. A key that was erased is not missing.
func (s *source) checkKey(t *events.Task) error {
	value, sealed := events.ParseSealed(t.Input)
	if !sealed {
		return nil
	}
	if s.keyIDs == nil {
		s.keyIDs = sealing.IDs(s.keys)
	}
	if s.keyIDs[value.Key] {
		return nil
	}
	return fmt.Errorf("the content of task %s is encrypted with the key %s, which is not among the %d keys of %s: %s", t.ID, events.Clip(value.Key, 64), len(s.keyIDs), s.name, s.withoutKeys())
}

// withoutKeys says what to do if tasks are encrypted and their keys are missing.
func (s *source) withoutKeys() string {
	if s.log != nil {
		return fmt.Sprintf("restore the topic %s first", s.log.topics().Keys())
	}
	return "add a newer checkpoint of a running node that may read the topic of keys (--from-checkpoint may be given several times)"
}

// checkpointKeys are the keys of each checkpoint, and when it was made.
type checkpointKeys []checkpointKey

type checkpointKey struct {
	made    events.Instant
	records []events.Record
}

func (k *checkpointKeys) add(made *projector.Checkpoint, dir string) error {
	records, err := made.Keys(projector.OnDisk(), dir)
	*k = append(*k, checkpointKey{made.Time, records})
	return err
}

// records returns those of all checkpoints, the oldest first: a later record of a key replaces an earlier one, and an erasure counts wherever it is.
func (k checkpointKeys) records() (all []events.Record) {
	slices.SortStableFunc(k, func(a, b checkpointKey) int { return cmp.Compare(a.made, b.made) })
	for _, x := range k {
		all = append(all, slices.DeleteFunc(x.records, func(r events.Record) bool { return r.Control })...)
	}
	return all
}

// keysAtOnce bounds how many records are sent together.
const keysAtOnce = 1000

// writeKeys copies the records of the topic of keys as they are. That needs no key file, because the keys are bound to the ID of the namespace, which
// the copy keeps. Then it opens the keys, if there is a key file.
func (c *copying) writeKeys(ctx context.Context) error {
	if len(c.from.keys) > 0 {
		if err := kafka.EnsureTopics(ctx, c.To.Cluster, c.To.topics().KeysSpec()); err != nil {
			return fmt.Errorf("make the topic of keys of %s: %w", c.To, err)
		}
		for list := range slices.Chunk(c.from.keys, keysAtOnce) {
			records := make([]events.Record, len(list))
			for i, r := range list {
				records[i] = events.Record{Topic: c.To.topics().Keys(), Key: r.Key, Value: r.Value, Headers: r.Headers}
			}
			if _, err := c.logs.Append(ctx, records...); err != nil {
				return fmt.Errorf("write to %s: %w", c.To.topics().Keys(), err)
			}
		}
		c.result.Keys = len(c.from.keys)
		c.say("%d records of keys are copied", c.result.Keys)
	}
	if c.scheduler = scheduler.New(); c.KeyFile == nil {
		return nil
	}
	var err error
	if c.keys, err = sealing.Open(ctx, c.To.Cluster, c.To.Namespace, c.KeyFile, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	c.scheduler = scheduler.NewSharedWith(c.keys).New()
	return c.keys.Bind(ctx, c.from.ns.ID)
}
