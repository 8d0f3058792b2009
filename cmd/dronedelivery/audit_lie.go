package main

import (
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// lieReport says which line was changed, and how.
type lieReport struct {
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

// lieTries bounds the search for a line that can be changed in this way.
const lieTries = 10_000

// lie changes one line, chosen by the seed; nil if no line fits.
func (c *comparison) lie(seed uint64) *lieReport {
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
		report := &lieReport{Seed: seed, Kind: lieKinds[seed%4], Task: e.task, Service: e.service, Line: e.number}
		changed := *e
		switch report.Kind {
		case "drop":
			if !c.needed(e, k.doing) {
				continue
			}
			c.entries = slices.Delete(c.entries, i, i+1)
			return report
		case "attempt":
			// The smallest attempt that the log does not hold, as if a worker had run ahead of the log.
			changed.Attempt = k.doing.attempts[len(k.doing.attempts)-1].number + 1
			report.Was, report.Is = e.Attempt, changed.Attempt
		case "key":
			changed.IdempotencyKey = c.otherKey(e, r)
			report.Was, report.Is = e.IdempotencyKey, changed.IdempotencyKey
		case "status":
			changed.Status = 503
			if !e.ok() {
				changed.Status = 201
			}
			report.Was, report.Is = e.Status, changed.Status
		}
		c.entries[i] = &changed
		return report
	}
	return nil
}

// needed says whether the log holds an outcome for which this line is the only evidence. A repeat of a call, or a call
// whose answer nobody received, can vanish without a contradiction.
func (c *comparison) needed(e *entry, d *doing) bool {
	a := d.attempt(e.Attempt)
	if a == nil || !e.ok() {
		return false
	}
	outcome := a.outcome
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

// otherKey returns the identifier of another call, or one that belongs to nothing.
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
