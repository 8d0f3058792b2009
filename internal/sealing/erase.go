package sealing

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Listed is a data key in a list.
type Listed struct {
	Subject string         `json:"subject"`
	ID      string         `json:"id"`
	Made    events.Instant `json:"made,omitzero"`
	// With is the fingerprint of the key that wraps it.
	With   string         `json:"with,omitempty"`
	Erased events.Instant `json:"erased,omitzero"`
}

// List returns all data keys as far as the topic was read, by subject and age.
func (t *Topic) List() (list []Listed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.ring.all {
		list = append(list, Listed{Subject: d.Subject, ID: d.id, Made: d.Made, With: d.With})
	}
	for id, e := range t.ring.erased {
		list = append(list, Listed{Subject: e.Subject, ID: id, Erased: e.Erased})
	}
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Made, b.Made), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Erase erases the data keys of a subject, and returns how many. It needs no key file, and can be repeated: a subject whose keys are all
// erased has none.
func (t *Topic) Erase(ctx context.Context, subject string, now events.Instant) (int, error) {
	if err := t.Read(ctx); err != nil {
		return 0, err
	}
	t.mu.Lock()
	var ids []string
	for _, d := range t.ring.live[subject] {
		ids = append(ids, d.id)
	}
	t.mu.Unlock()
	var list []events.Record
	for _, id := range ids {
		value, err := events.Marshal(erasedRecord{subject, now})
		if err != nil {
			return 0, err
		}
		list = append(list, events.Record{Key: []byte(erasedPrefix + id), Value: value})
	}
	// First what says that they are erased, and then their bytes: whoever reads in between must not take the keys for ones that never were.
	if len(list) > 0 {
		if err := t.write(ctx, list...); err != nil {
			return 0, err
		}
	}
	return len(ids), t.clear(ctx)
}

// clear deletes the bytes of erased keys from the topic.
func (t *Topic) clear(ctx context.Context) error {
	t.mu.Lock()
	var list []events.Record
	for id := range t.ring.left {
		list = append(list, events.Record{Key: []byte(keyPrefix + id)})
	}
	t.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	return t.write(ctx, list...)
}

// Rewrap wraps each data key with the first key of the file that another one wraps, and returns how many. Afterwards the other keys of the
// file open nothing that is still in use.
func (k *Keys) Rewrap(ctx context.Context) (int, error) {
	if err := k.topic.Read(ctx); err != nil {
		return 0, err
	}
	var list []events.Record
	k.topic.mu.Lock()
	first := k.file.Fresh()[0].name
	for _, d := range k.topic.ring.all {
		if d.With == first {
			continue
		}
		raw, err := k.unwrap(d)
		if err != nil {
			k.topic.mu.Unlock()
			return 0, fmt.Errorf("the data key %s: %w", d.id, err)
		}
		r, err := k.wrap(d, raw)
		if err != nil {
			k.topic.mu.Unlock()
			return 0, err
		}
		list = append(list, r)
	}
	k.topic.mu.Unlock()
	if len(list) > 0 {
		if err := k.topic.write(ctx, list...); err != nil {
			return 0, err
		}
	}
	return len(list), k.topic.clear(ctx) // somebody may have erased some of them meanwhile
}

// Topic returns the topic of the keys.
func (k *Keys) Topic() *Topic { return k.topic }
