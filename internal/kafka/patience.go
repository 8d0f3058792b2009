package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// Patience repeats the steps of a start while waiting may help. Its first failure is logged, and its time begins with that. It is for one
// goroutine.
type Patience struct {
	// Within is how long all steps together wait. Zero tries each step once.
	Within time.Duration
	Logger *slog.Logger

	// until is when the time is over, zero before the first failure.
	until time.Time
}

// The pauses between two tries. Most of what a start waits for passes within a second; a broker that starts takes up to a minute.
const (
	patiencePause    = 250 * time.Millisecond
	patiencePauseMax = 5 * time.Second
	// patienceTry bounds a try of a step that could wait longer than that without saying why.
	patienceTry = 10 * time.Second
)

// Try calls step until it succeeds, fails in a way that waiting cannot help (IsPassing), or the time is over.
func (p *Patience) Try(ctx context.Context, step func(context.Context) error) error {
	for wait := patiencePause; ; wait = min(2*wait, patiencePauseMax) {
		err := step(ctx)
		if p.Within == 0 || !IsPassing(err) || ctx.Err() != nil {
			return err
		}
		if p.until.IsZero() {
			p.until = time.Now().Add(p.Within)
			p.Logger.Warn("the start waits for the brokers; trying again", "for", p.Within, "reason", err)
		}
		left := time.Until(p.until)
		if left <= 0 {
			return fmt.Errorf("the brokers did not answer within %s: %w", p.Within, err)
		}
		pause.For(ctx, min(wait, left))
	}
}

// TryBriefly is Try for a step that may wait as long as its context lets it. A try that ends early must lose nothing.
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
