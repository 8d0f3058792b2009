package main

import (
	"slices"

	"github.com/sagalog/sagalog/internal/verify"
)

// report is the summary on stdout.
type report struct {
	Submitted int `json:"submitted"`
	// Checks are the results of package verify about the log.
	Checks        []verify.CheckResult     `json:"checks"`
	Ends          map[string]int           `json:"ends"`
	Log           logCounts                `json:"log"`
	Ownership     ownership                `json:"ownership"`
	Waits         waits                    `json:"waits"`
	Effects       map[string]effectCounts  `json:"effects"`
	Ledgers       map[string]*ledgerCounts `json:"ledgers"`
	LinesCompared int                      `json:"lines_compared"`
	TasksCompared int                      `json:"tasks_compared"`
	Lie           *lieReport               `json:"lie,omitempty"`
	Disagreements int                      `json:"disagreements"`
	First         []disagreement           `json:"first,omitempty"`
}

func (r *report) fill(c *comparison, f auditFlags) {
	r.Checks = slices.DeleteFunc(c.verified.Checks, func(c verify.CheckResult) bool { return c.Status == verify.Skipped })
	r.Submitted, r.Ends, r.Log, r.Ledgers, r.Effects = c.submitted, c.ends, c.book.Counts, c.ledgers, c.effects
	r.Log.Partitions, r.Log.Void, r.Log.Broken = len(c.verified.Partitions), c.verified.Counts.Void, c.verified.Counts.BrokenEpochs
	r.Ownership, r.Waits = c.book.ownership(), c.book.waits()
	if f.epochs {
		r.Ownership.Partitions = c.book.tenures
	}
	r.LinesCompared, r.TasksCompared = len(c.entries), len(c.book.stories)
	r.Disagreements = len(c.found)
	r.First = c.found[:min(f.show, len(c.found))]
	if r.Lie == nil {
		return
	}
	for _, d := range c.found {
		if d.Task == r.Lie.Task && d.Service == r.Lie.Service {
			r.Lie.Found = true
			return
		}
	}
}
