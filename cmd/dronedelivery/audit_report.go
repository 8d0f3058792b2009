package main

// report is the summary on stdout.
type report struct {
	Submitted     int                      `json:"submitted"`
	Ends          map[string]int           `json:"ends"`
	Log           logCounts                `json:"log"`
	Ledgers       map[string]*ledgerCounts `json:"ledgers"`
	LinesCompared int                      `json:"lines_compared"`
	TasksCompared int                      `json:"tasks_compared"`
	Lie           *lieTold                 `json:"lie,omitempty"`
	Disagreements int                      `json:"disagreements"`
	First         []disagreement           `json:"first,omitempty"`
}

func (r *report) fill(c *comparison, show int) {
	r.Submitted, r.Ends, r.Log, r.Ledgers = c.submitted, c.ends, c.book.Counts, c.ledgers
	r.LinesCompared, r.TasksCompared = len(c.entries), len(c.book.stories)
	r.Disagreements = len(c.found)
	r.First = c.found[:min(show, len(c.found))]
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
