package main

import (
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// lieTold says what was changed.
type lieTold struct {
	Seed    uint64 `json:"seed"`
	Kind    string `json:"kind"`
	Task    string `json:"task"`
	Service string `json:"service"`
	Line    int    `json:"line"`
	Was     any    `json:"was,omitempty"`
	Is      any    `json:"is,omitempty"`
	// Found says that a disagreement names the task and the service.
	Found bool `json:"found"`
}

// The kinds of lies, by seed mod 4.
var lieKinds = []string{"drop", "attempt", "key", "status"}

// lieTries bounds the search for a line that can be lied about.
const lieTries = 10_000

// lie changes one line, chosen by the seed; nil if there is none to choose.
func (c *comparison) lie(seed uint64) *lieTold {
	r := rand.New(rand.NewPCG(seed, 0x11e))
	if len(c.entries) == 0 {
		return nil
	}
	for range lieTries {
		i := r.IntN(len(c.entries))
		e := c.entries[i]
		k, ok := c.byKey[e.IdempotencyKey]
		if !ok {
			continue
		}
		told := &lieTold{Seed: seed, Kind: lieKinds[seed%4], Task: e.task, Service: e.service, Line: e.number}
		changed := *e
		switch told.Kind {
		case "drop":
			if !c.needed(e, k.doing) {
				continue
			}
			c.entries = slices.Delete(c.entries, i, i+1)
			return told
		case "attempt":
			// The least that the log does not hold, as a worker that ran ahead of the log would have.
			changed.Attempt = len(k.doing.attempts) + 1
			told.Was, told.Is = e.Attempt, changed.Attempt
		case "key":
			changed.IdempotencyKey = c.otherKey(e, r)
			told.Was, told.Is = e.IdempotencyKey, changed.IdempotencyKey
		case "status":
			changed.Status = 503
			if !e.ok() {
				changed.Status = 201
			}
			told.Was, told.Is = e.Status, changed.Status
		}
		c.entries[i] = &changed
		return told
	}
	return nil
}

// needed says whether the log holds an outcome for which this line is the only evidence. A repeat of a call, or one
// whose answer nobody got, can vanish without a contradiction.
func (c *comparison) needed(e *entry, d *doing) bool {
	if e.Attempt < 1 || e.Attempt > len(d.attempts) || !e.ok() {
		return false
	}
	outcome := d.attempts[e.Attempt-1].outcome
	if outcome != events.NameStepCompleted && outcome != events.NameCompensated {
		return false
	}
	for _, o := range c.entries {
		if o != e && o.IdempotencyKey == e.IdempotencyKey && o.Attempt == e.Attempt && o.ok() {
			return false
		}
	}
	return true
}

// otherKey is one of another call, or one that stands for nothing.
func (c *comparison) otherKey(e *entry, r *rand.Rand) string {
	if r.IntN(2) == 0 {
		if o := c.entries[r.IntN(len(c.entries))]; o.IdempotencyKey != e.IdempotencyKey {
			return o.IdempotencyKey
		}
	}
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return uuid.UUID(b).String()
}
