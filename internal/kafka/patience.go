package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// Patience retries the steps of a start while waiting may help. The first failure is logged and starts the clock. Only one goroutine may
// use it.
type Patience struct {
	// Within is how long all steps together may wait after the first failure. Zero tries each step once.
	Within time.Duration
	Logger *slog.Logger

	// until is the end of that time; zero before the first failure.
	until time.Time
}

// The pauses between tries. Most of what a start waits for is over within a second, but a broker takes up to a minute to start.
const (
	patiencePause    = 250 * time.Millisecond
	patiencePauseMax = 5 * time.Second
	// patienceTry bounds one try of a step that could otherwise wait longer without an error that says why.
	patienceTry = 10 * time.Second
)

// Try calls step until it succeeds, the time is up, or it fails with an error that waiting cannot cure (see IsPassing).
func (p *Patience) Try(ctx context.Context, step func(context.Context) error) error {
	for wait := patiencePause; ; wait = min(2*wait, patiencePauseMax) {
		err := step(ctx)
		if p.Within == 0 || !IsPassing(err) || ctx.Err() != nil {
			return err
		}
		if p.until.IsZero() {
			p.until = time.Now().Add(p.Within)
			p.Logger.Warn("the start is waiting for the brokers; trying again", "for", p.Within, "reason", err)
		}
		left := time.Until(p.until)
		if left <= 0 {
			return fmt.Errorf("the brokers did not answer within %s: %w", p.Within, err)
		}
		pause.For(ctx, min(wait, left))
	}
}

// Lend runs a step that waits by itself, for at most the time that is left. Its time counts like that of other steps.
func (p *Patience) Lend(step func(left time.Duration) error) error {
	left, began := p.Within, time.Now()
	if !p.until.IsZero() {
		left = max(time.Until(p.until), time.Nanosecond)
	}
	err := step(left)
	if p.until.IsZero() && time.Since(began) >= patiencePause {
		p.until = began.Add(p.Within)
	}
	return err
}

// TryBriefly is Try for a step that waits until its context ends. Each try is cut short after patienceTry, so the step must not lose
// anything when it is interrupted.
func (p *Patience) TryBriefly(ctx context.Context, step func(context.Context) error) error {
	return p.Try(ctx, func(ctx context.Context) error {
		if p.Within == 0 {
			return step(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, patienceTry)
		defer cancel()
		return step(ctx)
	})
}
