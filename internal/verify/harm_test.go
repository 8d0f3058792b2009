package verify_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// harmed is a recording that a forger changes at places that depend on a seed.
type harmed struct {
	*recorded
	t   *testing.T
	rng *rand.Rand
}

const (
	topicEvents = "sagalog.events"
	topicSubs   = "sagalog.submissions"
)

// harm returns a copy of the recording. A blind forger removes everything about the state: each recorded state hash is
// replaced by a fact that does nothing, which the forger can later replace with a forged one.
func harm(t *testing.T, w *recorded, seed uint64) *harmed {
	c := &recorded{memory: memory{map[string][][]events.Record{}}, stored: slices.Clone(w.stored), calls: slices.Clone(w.calls), acks: slices.Clone(w.acks), altered: w.altered}
	for name, parts := range w.topics {
		for _, list := range parts {
			list = slices.Clone(list)
			for i := range list {
				list[i].Headers = slices.Clone(list[i].Headers)
			}
			c.topics[name] = append(c.topics[name], list)
		}
	}
	return &harmed{recorded: c, t: t, rng: rand.New(rand.NewPCG(seed, 7))}
}

func (h *harmed) blind() {
	h.stored = nil
	for _, list := range h.topics[topicEvents] {
		for i := range list {
			if nameOf(list[i]) == events.NameStateHash {
				h.nothing(&list[i])
			}
		}
	}
}

// nothing replaces a fact with one that does nothing.
func (h *harmed) nothing(r *events.Record) {
	r.Key, r.Value = nil, []byte("{}")
	set(r, events.HeaderType, events.TypePrefix+string(events.NameInputsPassed))
	set(r, events.HeaderCause, "f/"+positionOf(r).String())
	for _, key := range []string{events.HeaderCauseID, events.HeaderCauseHash} {
		set(r, key, "")
	}
}

func set(r *events.Record, key, value string) {
	r.Headers = slices.DeleteFunc(r.Headers, func(h events.Header) bool { return h.Key == key })
	if value != "" {
		r.Headers = append(r.Headers, events.Header{Key: key, Value: []byte(value)})
	}
}

// positionOf returns the position of a fact; none for a record that has none.
func positionOf(r *events.Record) events.Position {
	at, _ := events.PositionOf(r)
	return at
}

// found is one record of a topic.
type found struct {
	*events.Record
	topic string
	part  int
	index int
}

func (f found) place() string { return fmt.Sprintf("%s/%d@%d", f.topic, f.part, f.Offset) }

// body decodes the record's value.
func (f found) body() map[string]any {
	m := map[string]any{}
	_ = json.Unmarshal(f.Value, &m)
	return m
}

func (f found) text(key string) string { return fmt.Sprint(f.body()[key]) }

// alter changes a member of the value, or removes it if the new value is nil. "a.b" is the member b of the member a.
func (f found) alter(key string, v any) {
	m := f.body()
	at := m
	path := strings.Split(key, ".")
	for _, p := range path[:len(path)-1] {
		at = at[p].(map[string]any)
	}
	if last := path[len(path)-1]; v == nil {
		delete(at, last)
	} else {
		at[last] = v
	}
	f.Value, _ = json.Marshal(m)
}

// all returns the records of a topic that satisfy a condition.
func (h *harmed) all(topic string, fits func(f found) bool) (list []found) {
	for p, records := range h.topics[topic] {
		for i := range records {
			if f := (found{&records[i], topic, p, i}); fits(f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// one picks one of the records that satisfy a condition.
func (h *harmed) one(topic string, fits func(f found) bool) found {
	list := h.all(topic, fits)
	require.NotEmpty(h.t, list, "the recording has no record in %s that can be damaged", topic)
	return list[h.rng.IntN(len(list))]
}

// accepted leaves out the copies that were appended to the log.
func (h *harmed) accepted(f found) bool {
	for i := range f.index {
		if h.topics[f.topic][f.part][i].Header(events.HeaderID) == f.Header(events.HeaderID) {
			return false
		}
	}
	return true
}

// fact picks an accepted fact with the given name, of a task whose ID has the given prefix. It picks no end of a step that nobody does.
func (h *harmed) fact(name events.Name, prefix string, more ...func(f found) bool) found {
	return h.one(topicEvents, func(f found) bool {
		if nameOf(*f.Record) != name || !strings.HasPrefix(string(f.Key), prefix) || !h.accepted(f) || name == events.NameStepCompleted && f.text("attempt") == "0" {
			return false
		}
		return !slices.ContainsFunc(more, func(fits func(f found) bool) bool { return !fits(f) })
	})
}

// of picks the only accepted fact of a name, task and step.
func (h *harmed) of(name events.Name, task, step string) found {
	return h.fact(name, task, func(f found) bool { return string(f.Key) == task && (step == "" || f.text("step") == step) })
}

func step(name string) func(f found) bool {
	return func(f found) bool { return f.text("step") == name }
}

// behind finds a fact that does nothing after another fact, so that the forger can replace it with a forged one. No
// fact of the same task with the name near may come before it.
func (h *harmed) behind(f found, before events.Name) (found, bool) {
	list := h.topics[topicEvents][f.part]
	for i := f.index + 1; i < len(list); i++ {
		r := &list[i]
		if before != "" && string(r.Key) == string(f.Key) && nameOf(*r) == before {
			return found{}, false
		}
		if nameOf(*r) == events.NameInputsPassed {
			return found{r, topicEvents, f.part, i}, true
		}
	}
	return found{}, false
}

// pivoted says whether the task of a fact started its pivot by the place of another fact.
func (h *harmed) pivoted(f, by found) bool {
	return slices.ContainsFunc(h.topics[topicEvents][f.part][:by.index], func(r events.Record) bool {
		var b struct{ Pivot bool }
		return string(r.Key) == string(f.Key) && nameOf(r) == events.NameStepStarted && json.Unmarshal(r.Value, &b) == nil && b.Pivot
	})
}

// forge replaces a fact that does nothing with another fact.
func (h *harmed) forge(into found, name events.Name, task string, body any) found {
	into.Key, into.Value = []byte(task), nil
	into.Value, _ = json.Marshal(body)
	set(into.Record, events.HeaderType, events.TypePrefix+string(name))
	return into
}

// again repeats a fact at a later place.
func (h *harmed) again(f, into found) found {
	return h.forge(into, nameOf(*f.Record), string(f.Key), json.RawMessage(f.Value))
}

// drop removes a record from a topic and leaves a gap in the offsets.
func (h *harmed) drop(f found) {
	list := h.topics[f.topic][f.part]
	h.topics[f.topic][f.part] = slices.Delete(slices.Clone(list), f.index, f.index+1)
}

// close removes a record and moves all later ones up.
func (h *harmed) close(f found) {
	h.drop(f)
	list := h.topics[f.topic][f.part]
	for i := f.index; i < len(list); i++ {
		list[i].Offset--
	}
}

// every applies a change to each record of a topic that satisfies a condition, last one first. An effect may occur more
// than once, because the next owner sends it again if the log does not say that it was acknowledged.
func (h *harmed) every(topic string, fits func(f found) bool, do func(f found)) (n int) {
	list := h.all(topic, fits)
	for _, f := range slices.Backward(list) {
		do(f)
	}
	return len(list)
}

// insert puts a record before another one, and moves that one and all later ones down.
func (h *harmed) insert(before found, r events.Record) found {
	list := slices.Insert(slices.Clone(h.topics[before.topic][before.part]), before.index, r)
	list[before.index].Offset = before.Offset
	for i := before.index + 1; i < len(list); i++ {
		list[i].Offset++
	}
	h.topics[before.topic][before.part] = list
	return found{&list[before.index], before.topic, before.part, before.index}
}

// append puts a record at the end of a partition.
func (h *harmed) append(topic string, part int, r events.Record) found {
	list := slices.Clone(h.topics[topic][part])
	r.Topic, r.Partition, r.Offset = topic, int32(part), 0
	if n := len(list); n > 0 {
		r.Offset = list[n-1].Offset + 1
	}
	list = append(list, r)
	h.topics[topic][part] = list
	return found{&list[len(list)-1], topic, part, len(list) - 1}
}
