package sealing

import (
	"cmp"
	"container/list"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

const (
	keyPrefix    = "key/"
	erasedPrefix = "erased/"
)

// keyRecord is a data key in the topic.
type keyRecord struct {
	// Namespace is the ID of the namespace, to which the key and its values are bound. A copy of the namespace keeps it.
	Namespace string         `json:"namespace"`
	Subject   string         `json:"subject"`
	Made      events.Instant `json:"made"`
	// With is the fingerprint of the key that wraps it, and Wrapped its bytes.
	With    string `json:"with"`
	Wrapped []byte `json:"wrapped"`
}

// erasedRecord says that a data key was erased.
type erasedRecord struct {
	Subject string         `json:"subject"`
	Erased  events.Instant `json:"erased"`
}

// dataKey is a data key as the topic holds it.
type dataKey struct {
	id string
	keyRecord
	// opened is nil until the key is first used, and again after other keys have displaced it; recent is its place in ring.opened.
	opened *openedKey
	recent *list.Element
}

// mostOpened bounds the data keys that a process keeps opened. Opening one again takes microseconds.
const mostOpened = 10_000

// ring is the fold of the topic of keys.
type ring struct {
	// namespace is the ID of the namespace: the one that Bind set, or else that of the first key. Keys of other namespaces are skipped.
	namespace string
	// all are those that were not erased, by their IDs, and erased the others.
	all    map[string]*dataKey
	erased map[string]erasedRecord
	// live are the keys of each subject that were not erased, the oldest first.
	live map[string][]*dataKey
	// left are the keys whose bytes are still in the topic although they were erased: somebody wrapped them again meanwhile.
	left map[string]bool
	// opened are the opened keys, the one used last first.
	opened list.List
}

// IDs returns the data keys that records of the topic hold, or say to be erased.
func IDs(records []events.Record) map[string]bool {
	ids := map[string]bool{}
	for _, r := range records {
		for _, prefix := range []string{keyPrefix, erasedPrefix} {
			if id, ok := strings.CutPrefix(string(r.Key), prefix); ok && r.Value != nil {
				ids[id] = true
			}
		}
	}
	return ids
}

func newRing(namespace string) *ring {
	return &ring{namespace: namespace, erased: map[string]erasedRecord{}, all: map[string]*dataKey{}, live: map[string][]*dataKey{}, left: map[string]bool{}}
}

// apply folds a record of the topic.
func (r *ring) apply(rec *events.Record) error {
	name := string(rec.Key)
	if id, ok := strings.CutPrefix(name, erasedPrefix); ok {
		var e erasedRecord
		if err := json.Unmarshal(rec.Value, &e); err != nil || id == "" {
			return fmt.Errorf("the record %q at offset %d of the keys is not one of an erasure", events.Clip(name, 80), rec.Offset)
		}
		r.erase(id, e)
		return nil
	}
	id, ok := strings.CutPrefix(name, keyPrefix)
	if !ok || id == "" {
		return fmt.Errorf("the record %q at offset %d of the keys is of no known kind", events.Clip(name, 80), rec.Offset)
	}
	if rec.Value == nil { // the end of an erasure
		delete(r.left, id)
		return nil
	}
	var k keyRecord
	if err := json.Unmarshal(rec.Value, &k); err != nil || k.Namespace == "" {
		return fmt.Errorf("the record %q at offset %d of the keys is not one of a data key", events.Clip(name, 80), rec.Offset)
	}
	if r.namespace = cmp.Or(r.namespace, k.Namespace); k.Namespace != r.namespace {
		return fmt.Errorf("the data key %s at offset %d is of the namespace with the ID %s, and this one has the ID %s", events.Clip(id, 64), rec.Offset, events.Clip(k.Namespace, 64), r.namespace)
	}
	k.Namespace = r.namespace // the same bytes for all keys
	_, erased := r.erased[id]
	switch known := r.all[id]; {
	case erased:
		r.left[id] = true
	case known == nil:
		r.add(&dataKey{id: id, keyRecord: k})
	default: // wrapped again
		known.With, known.Wrapped = k.With, k.Wrapped
	}
	return nil
}

func (r *ring) add(k *dataKey) {
	r.all[k.id] = k
	keys := append(r.live[k.Subject], k)
	slices.SortFunc(keys, func(a, b *dataKey) int { return cmp.Or(cmp.Compare(a.Made, b.Made), cmp.Compare(a.id, b.id)) })
	r.live[k.Subject] = keys
}

func (r *ring) erase(id string, e erasedRecord) {
	if _, again := r.erased[id]; again {
		return
	}
	r.erased[id] = e
	k := r.all[id]
	if k == nil {
		return
	}
	r.close(k)
	delete(r.all, id)
	r.left[id] = true
	if keys := slices.DeleteFunc(r.live[k.Subject], func(o *dataKey) bool { return o == k }); len(keys) > 0 {
		r.live[k.Subject] = keys
	} else {
		delete(r.live, k.Subject)
	}
}

// used notes that an opened key is used. If too many are opened, it closes the least recently used one.
func (r *ring) used(k *dataKey) {
	if k.recent != nil {
		r.opened.MoveToFront(k.recent)
		return
	}
	k.recent = r.opened.PushFront(k)
	if r.opened.Len() > mostOpened {
		r.close(r.opened.Back().Value.(*dataKey))
	}
}

func (r *ring) close(k *dataKey) {
	if k.recent != nil {
		r.opened.Remove(k.recent)
	}
	k.recent, k.opened = nil, nil
}

// first returns the oldest live key of a subject, and last the latest; nil without one.
func (r *ring) first(subject string) *dataKey {
	if keys := r.live[subject]; len(keys) > 0 {
		return keys[0]
	}
	return nil
}

func (r *ring) last(subject string) *dataKey {
	if keys := r.live[subject]; len(keys) > 0 {
		return keys[len(keys)-1]
	}
	return nil
}
