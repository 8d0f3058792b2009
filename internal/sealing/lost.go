package sealing

import (
	"context"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// The topic of keys may be lost, or come back with fewer records. The processes that run still have what they read. They keep it, and nodes write
// it into the topic again as soon as there is one, before any new key is made. A process that starts then finds all keys.
//
// A namespace whose keys are lost looks like one that never had any. So nodes remember outside of the topic that it has.

// Mark remembers outside of the topic that the namespace has had a key.
type Mark interface {
	Marked() bool
	// Mark remembers it from now on.
	Mark(ctx context.Context) error
}

// Guard makes this process, which may write to the topic, write again what the topic has lost. No key is made in an empty topic if the mark says that
// the namespace has had keys. It must be called before the keys are used.
func (k *Keys) Guard(m Mark) { k.mark = m }

// Lost returns an error if the namespace has had keys and the topic holds nothing.
func (k *Keys) Lost(ctx context.Context) error {
	if k.mark == nil || !k.mark.Marked() || !k.topic.Empty() {
		return nil
	}
	if err := k.topic.Read(ctx); err != nil || !k.topic.Empty() { // the first key was made since it was read
		return err
	}
	return fmt.Errorf("the topic of keys %s is gone or empty, and namespace %s has keys: what they encrypted cannot be opened without it. Restore the topic. If a node of the namespace still runs, "+
		"do not stop it: make the topic again, with one partition and cleanup.policy=compact, and a running node writes its keys back within a few seconds", k.topic.name, k.topic.namespace)
}

// absent returns the error of a value whose data key the topic does not have. It is final only if the topic was never without something that it had.
func (k *Keys) absent(id string) error {
	id = events.Clip(id, 64)
	k.topic.mu.Lock()
	shrunk := k.topic.shrunk
	k.topic.mu.Unlock()
	switch empty := k.topic.Empty(); {
	case shrunk:
		return &events.NoKeyError{Missing: id, Reason: fmt.Sprintf("the topic of keys %s has lost records, and its data key %s is not there: restore the topic", k.topic.name, id)}
	case empty && (k.mark == nil || k.mark.Marked()):
		return &events.NoKeyError{Missing: id, Reason: fmt.Sprintf("the topic of keys %s is empty: restore it", k.topic.name)}
	}
	return fmt.Errorf("%w: there is no data key %s in this namespace", ErrNoKey, id)
}

// loseAll notes that nothing that was read is known to be in the topic. mu is held.
func (t *Topic) loseAll() {
	t.next, t.shrunk, t.lost = 0, true, map[string]bool{}
	for id := range t.ring.all {
		t.lost[keyPrefix+id] = true
	}
	for id := range t.ring.erased {
		t.lost[erasedPrefix+id] = true
	}
}

// lacks says whether the topic has lost something that this process still has.
func (t *Topic) lacks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lost) > 0
}

// mostWritten bounds the records that are written together.
const mostWritten = 1000

// giveBack writes into the topic what it has lost.
func (t *Topic) giveBack(ctx context.Context) error {
	list, err := t.lostRecords()
	if err != nil || len(list) == 0 {
		return err
	}
	t.Close() // its producer remembers the topic that was deleted
	for records := range slices.Chunk(list, mostWritten) {
		if err := t.write(ctx, records...); err != nil {
			return err
		}
	}
	t.log.Info("what the topic of keys had lost was written into it again", "topic", t.name, "records", len(list))
	return t.clear(ctx) // erased keys may have come back
}

// lostRecords returns the records that the topic has lost. Erasures come first, so that nobody takes an erased key for one that is not.
func (t *Topic) lostRecords() (list []events.Record, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(key string, content any) {
		if !t.lost[key] || err != nil {
			return
		}
		var value []byte
		value, err = events.Marshal(content)
		list = append(list, events.Record{Key: []byte(key), Value: value})
	}
	for id, e := range t.ring.erased {
		add(erasedPrefix+id, e)
	}
	for id, d := range t.ring.all {
		add(keyPrefix+id, d.keyRecord)
	}
	return list, err
}
