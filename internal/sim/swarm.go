package sim

import (
	"math/rand/v2"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// drawFaults does swarm testing: each run has some kinds of faults often and others never, because faults hide one
// another. Some runs are calm, with few kinds; others are storms.
func drawFaults(r *rand.Rand) *Faults {
	on := []float64{0.2, 0.45, 0.45, 0.75}[r.IntN(4)]
	p := func(most float64) float64 {
		switch {
		case r.Float64() >= on:
			return 0
		case r.IntN(2) == 0:
			return most / 5
		}
		return most * r.Float64()
	}
	if r.IntN(5) == 0 {
		f := themes[r.IntN(len(themes))]
		return &f
	}
	return &Faults{
		Lost: p(0.1), Silent: p(0.1), Error: p(0.1), Split: p(0.1), Apart: p(0.1), Double: p(0.1), Reorder: p(0.3), VeryLate: p(0.05),
		AnswerTwice: p(0.3), Slow: p(0.2),
		Refuse: p(0.2), EffectTwice: p(0.3), Mute: p(0.05), AskFails: p(0.3),
		AgentSilent: p(0.3), AgentFails: p(0.5), AgentLate: p(0.3), AgentTwice: p(0.4), AgentSlow: p(0.3), Odd: p(0.3),
		Misplaced: p(0.3), Duplicate: 0.1 + p(0.4), Conflict: p(0.2), Garbage: p(0.5), Cancel: p(0.5), Retry: p(0.5), Oversize: p(0.4), Panic: p(0.2),
		Crash: p(8), Pause: p(8), Reassign: p(8), Jump: p(4), Flood: p(0.3), AgentDown: p(2), AgentRestart: p(3), AgentGone: p(3),
	}
}

// themes are mixes in which two kinds of faults meet often. Each of them caught deliberate mistakes that hundreds of
// runs of the other mixes missed.
var themes = []Faults{
	// Sweeping and expiry versus inputs that were durable earlier.
	{Duplicate: 0.7, Slow: 0.3, AskFails: 0.1, Refuse: 0.2, Cancel: 0.5, Lost: 0.03, Crash: 2},
	{Cancel: 0.8, Slow: 0.5, Duplicate: 0.1},
	{Duplicate: 0.7, Slow: 0.4, AskFails: 0.6, Crash: 4},
	// Forwards that are late, refused, or missing.
	{Misplaced: 0.8, Slow: 0.6, Pause: 8, Duplicate: 0.5, Garbage: 0.9},
	{Misplaced: 0.7, Refuse: 0.5, Duplicate: 0.1},
	// Operators and failing steps, and batches that are cut.
	{AgentFails: 0.9, Retry: 0.9, Duplicate: 0.1},
	{AgentFails: 0.5, AgentSilent: 0.3, Cancel: 0.5, Split: 0.3, Crash: 6},
	// Work that is sent again while its report is on its way.
	{Crash: 8, Reassign: 6, AgentFails: 0.5, AgentSlow: 0.5, Slow: 0.3, EffectTwice: 0.3, Refuse: 0.2},
	{AgentLate: 0.6, AgentSilent: 0.3, Slow: 0.4, AgentTwice: 0.3, Duplicate: 0.1},
	// Topics that answer nothing, and enough alerts to fill their room.
	{Mute: 0.1, AgentFails: 0.9, AgentSilent: 0.3, Retry: 0.5, Cancel: 0.3, Crash: 2},
	// Panics, in processes that forget them.
	{Panic: 0.6, Crash: 3, AgentTwice: 0.5, Retry: 0.5, Duplicate: 0.1},
}

// drawConfig chooses small bounds, so that situations that are rare in production happen in each run.
func drawConfig(r *rand.Rand, opt *Options) supervisor.Config {
	s := events.DefaultSettings()
	s.HashEvery = 1 + r.IntN(12)
	s.Grace = events.Duration(500 * time.Millisecond)
	s.HeldFor = events.Duration(time.Duration(2+r.IntN(10)) * time.Second)
	s.HeldRequests = 1 + r.IntN(6)
	s.ReplyTopics = replyTopics
	s.RememberFor, s.RemindAfter = events.Duration(opt.Remember), events.Duration(opt.Remind)
	s.KeepLog = 0
	if r.IntN(3) == 0 {
		s.TaskFacts = 6 + r.IntN(20)
	}
	if opt.Faults.Oversize > 0 {
		s.SubmissionBytes, s.PayloadBytes = 500+r.IntN(100), 200+r.IntN(200)
	}
	return supervisor.Config{
		Partitions: opt.Partitions, Namespace: "sim", Settings: s, Off: opt.Off,
		BatchFacts: 2 + r.IntN(9), BatchBytes: 4 << 10 << r.IntN(4), InFlight: 1 + r.IntN(4), Queue: 1 + r.IntN(6), Beside: 1 + r.IntN(4), Tasks: 1 + r.IntN(10),
		Unacknowledged: 4 + r.IntN(40), DelayAfter: time.Duration(1+r.IntN(12)) * time.Second, ReplyFor: replyFor * time.Second, Window: 1 + r.IntN(5), PassEvery: 1 + r.IntN(8), UnknownAfter: 3 * time.Second, LagMax: 3 * time.Second,
		PauseLogAbove: []int{0, 0, 1, 3}[r.IntN(4)],
		FlushEvery:    []time.Duration{0, -1, 200 * time.Millisecond, time.Second, 5 * time.Second}[r.IntN(5)],
	}
}

// resolve draws the options that are not set. late is a separate stream, so that known seeds keep their faults.
func (o *Options) resolve(r, late *rand.Rand) {
	draw := func(v *int, least, n int) {
		if d := least + r.IntN(n); *v == 0 {
			*v = d
		}
	}
	partitions := int(o.Partitions)
	draw(&partitions, 1, 2)
	o.Partitions = int32(partitions)
	draw(&o.Nodes, 2, 2)
	draw(&o.Tasks, 3, 14)
	if d := time.Duration(5+r.IntN(30)) * time.Second; o.Chaos == 0 {
		o.Chaos = d
	}
	remember := 24 * time.Hour
	if r.IntN(3) == 0 {
		remember = time.Duration(1+r.IntN(8)) * time.Second
	}
	if o.Remember == 0 {
		o.Remember = remember
	}
	if f := drawFaults(r); o.Faults == nil {
		o.drawLate(f, late)
		o.Faults = f
	}
}

// drawLate draws the faults that were added later.
func (o *Options) drawLate(f *Faults, late *rand.Rand) {
	f.Settings = float64(late.IntN(4)) / 2
	if late.IntN(6) == 0 {
		f.Lethal = 0.3 * late.Float64()
	}
	f.Trim = float64(max(late.IntN(6)-3, 0)) * 2
	if late.IntN(3) == 0 {
		f.Levels = float64(2 + late.IntN(8))
	}
	if late.IntN(3) == 0 {
		f.Unkind, f.Jump = 0.3+0.7*late.Float64(), 0
		switch late.IntN(4) {
		case 0, 1: // dos that fail in doubt and are undone
			f.AgentFails, f.AgentSilent, f.Cancel, f.Panic, f.Retry = 0.8, 0.1, 0.3, 0, 0
		case 2: // requests that come again
			f.AgentFails, f.AgentTwice, f.EffectTwice, f.AgentRestart, f.Slow, f.Cancel = 0.3, 0.3, 0.4, 8, 0.3, 0.5
		case 3: // task IDs that come again
			f.Duplicate, f.Settings, f.Trim = 0.8, 3, 0
		}
	}
	if late.IntN(3) == 0 {
		f.Transaction = float64(1 + late.IntN(4))
	}
	if late.IntN(12) == 0 {
		f.Away = float64(1 + late.IntN(30))
	}
	if late.IntN(6) == 0 {
		f.Outage = 1
	}
	if late.IntN(3) == 0 && o.Remind == 0 {
		o.Remind = time.Duration(1+late.IntN(10)) * time.Second
	}
	if f.Unkind == 0 && late.IntN(25) == 0 {
		f.Wrong, f.Jump = 1, 0
	}
	if late.IntN(4) == 0 {
		f.AgentPaused = float64(1 + late.IntN(4))
	}
	if f.Jump == 0 && late.IntN(4) == 0 {
		f.Schedules = float64(1 + late.IntN(maxSchedules))
	}
	if late.IntN(8) == 0 && !o.uncopied {
		f.Copy = float64(1 + late.IntN(2))
	}
	if late.IntN(4) == 0 {
		f.Families = float64(1 + late.IntN(8))
		if late.IntN(2) == 0 {
			f.LateStarts = 0.3
		}
	}
	if late.IntN(3) == 2 && !o.NoItems {
		f.FanOuts = 0.4
	}
}
