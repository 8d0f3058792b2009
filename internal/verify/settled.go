package verify

import (
	"strings"

	"github.com/sagalog/sagalog/events"
)

// settled is what the log says about effects: those of all facts up to the watermark are acknowledged, except those for a delayed
// destination. For each of these, the log says up to which fact they are.
type settled struct {
	watermark events.Position
	delayed   map[string]events.Position
}

// take takes an accepted fact.
func (s *settled) take(f *events.Fact) {
	if s.watermark.Before(f.Watermark) {
		s.watermark = f.Watermark
	}
	switch b := f.Body.(type) {
	case *events.EffectsDelayed:
		if s.delayed == nil {
			s.delayed = map[string]events.Position{}
		}
		s.delayed[b.Destination] = b.After
	case *events.EffectsCaughtUp:
		delete(s.delayed, b.Destination)
	}
}

// covers says whether the effects of a fact for a destination are acknowledged.
func (s settled) covers(at events.Position, destination string) bool {
	if after, delayed := s.delayed[destination]; delayed {
		return !after.Before(at)
	}
	return !s.watermark.Before(at)
}

// coversWork says whether the work request of a fact is acknowledged, whichever agent it is for. While another agent is delayed,
// it may return false for an acknowledged request.
func (s settled) coversWork(at events.Position) bool {
	for to, after := range s.delayed {
		if strings.HasPrefix(to, "work.") && after.Before(at) {
			return false
		}
	}
	return !s.watermark.Before(at)
}
