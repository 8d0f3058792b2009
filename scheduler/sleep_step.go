package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// sleepStep is over when its time has come. It calls nobody, so it has no attempts and no undo.
type sleepStep struct {
	step *Step
	// within is the duration of the sleep, and zero if until is the template of its end.
	within events.Duration
	until  *exprlang.Template
}

func compileSleepStep(s *Step) (*sleepStep, error) {
	c := &sleepStep{step: s}
	var text string
	if json.Unmarshal(s.Sleep, &text) == nil {
		within, err := events.ParseDuration(text)
		if c.within = within; err != nil {
			return nil, fmt.Errorf("sleep: %w", err)
		}
		return c, nil
	}
	var at struct {
		Until json.RawMessage `json:"until"`
	}
	if err := json.Unmarshal(s.Sleep, &at); err != nil {
		return nil, fmt.Errorf("sleep: %w", err)
	}
	until, err := compileTemplate(at.Until, doVars)
	if c.until = until; err != nil {
		return nil, fmt.Errorf("sleep.until: %w", err)
	}
	if until == nil {
		return nil, errors.New("sleep: until is missing")
	}
	return c, nil
}

func (s *sleepStep) begin(env *Env, _ string) (opening, error) {
	fact := &events.WaitStarted{Step: s.step.ID, Within: s.within, Condition: condition(s.step)}
	if s.until == nil {
		return opening{fact: fact}, nil
	}
	raw, ok := s.until.Constant()
	if !ok {
		var err error
		if raw, err = s.until.Eval(env.open()); err != nil {
			return opening{}, fmt.Errorf("sleep.until: %w", err)
		}
	}
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil {
		return opening{}, fmt.Errorf("sleep.until gives %s, which is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m", events.Clip(string(raw), maxQuotedBytes))
	}
	var err error
	fact.Until, fact.Within, err = parseUntil(*text)
	if err != nil {
		return opening{}, fmt.Errorf("sleep.until: %w", err)
	}
	return opening{fact: fact}, nil
}

// firstInstant stands for every instant before it: zero means that an instant is absent.
const firstInstant events.Instant = 1

// parseUntil reads an instant or a positive duration, and returns the one that it is.
func parseUntil(text string) (until events.Instant, within events.Duration, err error) {
	if until, err = events.ParseInstant(text); err == nil {
		return max(until, firstInstant), 0, nil
	}
	within, err = events.ParseDuration(text)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%q is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m", abbreviate(text))
	case within <= 0:
		return 0, 0, fmt.Errorf("the duration %q is not positive", abbreviate(text))
	}
	return 0, within, nil
}

// undo implements stepKind.
func (s *sleepStep) undo() (opening, error) {
	return opening{}, fmt.Errorf("step %q sleeps, which has no undo", s.step.ID)
}

// start implements stepKind.
func (s *sleepStep) start(*Env, string, events.Operation) (events.Start, error) {
	return events.Start{}, fmt.Errorf("step %q sleeps, which has no attempts", s.step.ID)
}

// policy implements stepKind. A sleep fails if its end cannot be evaluated, or if an operator says so.
func (s *sleepStep) policy(op events.Operation) events.Policy {
	if op == events.Undo {
		return events.Policy{Then: events.ActionPark}
	}
	return policyOf(0, s.step.Retry, nil)
}

func (*sleepStep) calls() []events.Call { return nil }
