package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sagalog/sagalog/events"
)

// MaxPaused bounds the agents that are paused at once. All readers ignore a record that would pause one more.
const MaxPaused = 1_000

// PauseRecord is the record that paused an agent.
type PauseRecord struct {
	events.AgentPause
	Offset int64
	// At is when it was written.
	At events.Instant
}

// Paused returns the agents that are paused, by name. The map is read-only.
func (c *Catalog) Paused() map[string]PauseRecord { return c.now.Load().paused }

func (c *Catalog) applyAgentPause(offset int64, e events.Envelope, data []byte) error {
	r := PauseRecord{Offset: offset}
	if err := json.Unmarshal(data, &r.AgentPause); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeAgentPause, err)
	}
	if r.Agent == "" {
		return fmt.Errorf("read %s: it names no agent", events.TypeAgentPause)
	}
	var err error
	if r.At, err = appliedAt(e.Time); err != nil {
		return err
	}
	s := *c.now.Load()
	_, already := s.paused[r.Agent]
	switch {
	case !r.Paused && !already:
		return nil
	case r.Paused && !already && len(s.paused) >= MaxPaused:
		return fmt.Errorf("agent %q is not paused: %d agents are paused already", r.Agent, MaxPaused)
	}
	if s.paused = maps.Clone(s.paused); s.paused == nil {
		s.paused = map[string]PauseRecord{}
	}
	if r.Paused {
		s.paused[r.Agent] = r
	} else {
		delete(s.paused, r.Agent)
	}
	c.now.Store(&s)
	return nil
}

// EncodeAgentPause returns the record that pauses an agent, or lets it go on, for <ns>.definitions.
func EncodeAgentPause(a *events.AgentPause, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(a.Key()), Value: b, Headers: headers(s, events.TypeAgentPause, "")}, nil
}
