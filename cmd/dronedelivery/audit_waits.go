package main

import (
	"context"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
)

// figures are quantiles of times in milliseconds.
type figures struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func figuresOf(ms []float64) figures {
	slices.Sort(ms)
	return figures{Count: len(ms), P50: quantile(ms, 0.5), P99: quantile(ms, 0.99), Max: quantile(ms, 1)}
}

// quantile returns a quantile of a sorted list, 0 of an empty one.
func quantile[T float32 | float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// waits is the section of the summary about how long deliveries waited, by the times of their facts.
type waits struct {
	// Accepted is from the submission's record to its acceptance: two clocks, the producer's and the owner's.
	Accepted figures `json:"to_accepted"`
	// Started is from the acceptance to the first step.
	Started figures `json:"to_started"`
	// Silent is each delivery's longest time between two facts, from its acceptance to its end.
	Silent figures `json:"silent"`
	// Whole is from acceptance to end.
	Whole figures `json:"whole"`
	// Longest is the longest silence of all.
	Longest *silence `json:"longest_silence,omitempty"`
}

// silence is a time in which nothing was written about a delivery.
type silence struct {
	Task      string         `json:"task"`
	Partition int32          `json:"partition"`
	From      events.Instant `json:"from"`
	To        events.Instant `json:"to"`
	// Behind and Before are the facts before and after it.
	Behind events.Name `json:"behind"`
	Before events.Name `json:"before"`
}

func (s *silence) ms() float64 { return s.To.Sub(s.From).Seconds() * 1000 }

// pulse tracks when the facts of a delivery were written.
type pulse struct {
	asked, submitted, started, ended events.Instant
	last                             events.Instant
	behind                           events.Name
	longest                          silence
}

// measure notes when a fact of the story was written.
func (s *story) measure(f *events.Fact, asked events.Instant) {
	p := &s.pulse
	name := f.Body.Name()
	switch name {
	case events.NameSubmitted:
		p.asked, p.submitted = asked, f.Time
	case events.NameStepStarted:
		if p.started == 0 {
			p.started = f.Time
		}
	case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskTerminated, events.NameTaskParked:
		p.ended = f.Time
	}
	if p.submitted == 0 {
		return // a request that is held waits for its submission, and not for the engine
	}
	if p.last != 0 && f.Time-p.last >= p.longest.To-p.longest.From {
		p.longest = silence{Task: s.id, Partition: s.partition, From: p.last, To: f.Time, Behind: p.behind, Before: name}
	}
	p.last, p.behind = f.Time, name
}

// waits sums up.
func (b *logBook) waits() waits {
	var w waits
	var accepted, started, silent, whole []float64
	for _, s := range b.stories {
		p := &s.pulse
		if p.submitted == 0 {
			continue
		}
		if p.asked != 0 {
			accepted = append(accepted, p.submitted.Sub(p.asked).Seconds()*1000)
		}
		if p.started != 0 {
			started = append(started, p.started.Sub(p.submitted).Seconds()*1000)
		}
		if p.ended != 0 {
			whole = append(whole, p.ended.Sub(p.submitted).Seconds()*1000)
		}
		silent = append(silent, p.longest.ms())
		if w.Longest == nil || p.longest.ms() > w.Longest.ms() {
			w.Longest = &p.longest
		}
	}
	w.Accepted, w.Started, w.Silent, w.Whole = figuresOf(accepted), figuresOf(started), figuresOf(silent), figuresOf(whole)
	return w
}

// readAsked returns when each submission with the prefix was written, by the cause that names its record.
func readAsked(ctx context.Context, log verify.Log, namespace, prefix string) (map[events.Cause]events.Instant, error) {
	asked := map[events.Cause]events.Instant{}
	err := readTopic(ctx, log, kafka.Topics{Namespace: namespace}.Submissions(), func(r *events.Record) {
		if strings.HasPrefix(string(r.Key), prefix) {
			asked[events.CauseInput(events.Submissions, r.Partition, r.Offset)] = r.Timestamp
		}
	})
	return asked, err
}
