package sealing

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The data keys of a subject are ordered by the time when they were made. Equal inputs are recognised by the first key, and the latest one seals. The
// order must not depend on clocks, so a new key is dated at least a millisecond after every key of its subject in the topic. Two processes that make
// the first keys of a subject at the same moment do not see each other's key. A submission that is then repeated with the other key is compared
// by content: see events.Submission.Repeats.

// Prepare makes the first data keys of those of the subjects that have none, with one write.
func (k *Keys) Prepare(ctx context.Context, subjects ...string) error {
	for _, s := range subjects {
		if len(s) > MaxSubject {
			return fmt.Errorf("a subject has %d bytes; %d are allowed", len(s), MaxSubject)
		}
	}
	if len(k.without(subjects)) == 0 {
		return nil
	}
	return k.make(ctx, func() []string { return k.without(subjects) })
}

// ready makes the first data key of a subject if it has none.
func (k *Keys) ready(ctx context.Context, subject string) error { return k.Prepare(ctx, subject) }

// without returns the subjects that have no data key, each once.
func (k *Keys) without(subjects []string) (list []string) {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	for _, s := range subjects {
		if k.topic.ring.last(s) == nil && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// Rotate makes another data key of a subject, which seals from then on, and returns its ID. Values that were sealed before stay as they are.
func (k *Keys) Rotate(ctx context.Context, subject string) (id string, err error) {
	if err := k.make(ctx, func() []string { return []string{subject} }); err != nil {
		return "", err
	}
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if d := k.topic.ring.last(subject); d != nil {
		return d.id, nil
	}
	return "", errErasedMeanwhile
}

// make makes a data key for each of the subjects that are needed once the topic is read, and reads them back: only then are they used.
func (k *Keys) make(ctx context.Context, needed func() []string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case k.making <- struct{}{}:
	}
	defer func() { <-k.making }()
	if err := k.topic.Read(ctx); err != nil {
		return err
	}
	if err := k.ensureWhole(ctx); err != nil {
		return err
	}
	k.topic.mu.Lock()
	namespace := k.topic.ring.namespace
	k.topic.mu.Unlock()
	if namespace == "" {
		return fmt.Errorf("namespace %s has no data key yet, and only a node can make the first one: start a node with --seal-key-file, and submit a task over its API", k.topic.namespace)
	}
	var list []events.Record
	for _, subject := range needed() {
		made := events.At(k.now())
		k.topic.mu.Lock()
		if last := k.topic.ring.last(subject); last != nil {
			made = max(made, last.Made.Add(time.Millisecond))
		}
		k.topic.mu.Unlock()
		r, err := k.wrap(&dataKey{id: hex.EncodeToString(randomBytes(8)), keyRecord: keyRecord{Namespace: namespace, Subject: subject, Made: made}}, randomBytes(keyBytes))
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil
	}
	if err := k.topic.write(ctx, list...); err != nil || k.mark == nil || k.mark.Marked() {
		return err
	}
	return k.mark.Mark(ctx)
}

// ensureWhole gives the topic back what it has lost, and returns an error if there is nothing to give back: no key may be made until it is restored.
func (k *Keys) ensureWhole(ctx context.Context) error {
	if err := k.Lost(ctx); err != nil || k.mark == nil {
		return err
	}
	return k.topic.giveBack(ctx)
}
