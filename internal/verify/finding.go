package verify

import (
	"cmp"
	"fmt"
	"slices"
)

// The checks.
const (
	CheckFold      = "fold"
	CheckOwnership = "ownership"
	CheckInputs    = "inputs"
	CheckAttempts  = "attempts"
	CheckMovers    = "movers"
	CheckUndo      = "undo"
	CheckEffects   = "effects"
	CheckLedgers   = "ledgers"
)

// checks are all of them, in the order in which they are reported, with what each proves.
var checks = []struct{ name, what string }{
	{CheckFold, "the log folds, and every recorded and stored state is its fold"},
	{CheckOwnership, "one owner at each offset, who alone wrote its facts"},
	{CheckInputs, "every input below the resume point was judged exactly once"},
	{CheckAttempts, "one outcome for each attempt, in an order that the definition allows; what ended stays"},
	{CheckMovers, "every live task has something that will move it"},
	{CheckUndo, "undo is complete and in reverse order"},
	{CheckEffects, "every effect is that of an accepted fact, and none that is settled is missing"},
	{CheckLedgers, "the services' ledgers agree with the log"},
}

// Place is where something stands.
type Place struct {
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// String is TOPIC/PARTITION@OFFSET.
func (p Place) String() string {
	if p.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d@%d", p.Topic, p.Partition, p.Offset)
}

// Finding is one thing that is wrong, or (as a warning) that somebody should look at.
type Finding struct {
	Check string `json:"check"`
	// Kind tells findings of one sort, which are capped together.
	Kind string `json:"kind"`
	Place
	Task string `json:"task,omitempty"`
	Step string `json:"step,omitempty"`
	// What is one sentence.
	What string `json:"what"`
}

// String is the finding in one line.
func (f Finding) String() string {
	s := f.Check + ": "
	if p := f.Place.String(); p != "" {
		s += p + ": "
	}
	if f.Task != "" {
		s += fmt.Sprintf("task %q: ", f.Task)
	}
	if f.Step != "" {
		s += "step " + f.Step + ": "
	}
	return s + f.What
}

// CheckResult is the outcome of one check.
type CheckResult struct {
	Check string `json:"check"`
	What  string `json:"what"`
	// Status is proved, refuted, incomplete (something could not be looked at) or skipped (nobody asked for it).
	Status   string `json:"status"`
	Findings int    `json:"findings"`
	// Unable says what could not be looked at, and why.
	Unable []string `json:"unable,omitempty"`
}

// The values of Status and of Report.Verdict.
const (
	Proved     = "proved"
	Refuted    = "refuted"
	Incomplete = "incomplete"
	Skipped    = "skipped"
)

// book collects findings, the first few of each kind.
type book struct {
	show     int
	findings []Finding
	warnings []Finding
	kinds    map[string]int
	warned   map[string]int
	totals   map[string]int
	unable   map[string][]string
}

func newBook(show int) *book {
	if show <= 0 {
		show = 5
	}
	return &book{show: show, kinds: map[string]int{}, warned: map[string]int{}, totals: map[string]int{}, unable: map[string][]string{}}
}

func (b *book) add(f Finding) {
	b.totals[f.Check]++
	key := f.Check + " " + f.Kind
	if b.kinds[key]++; b.kinds[key] <= b.show {
		b.findings = append(b.findings, f)
	}
}

func (b *book) warn(f Finding) {
	key := f.Check + " " + f.Kind
	if b.warned[key]++; b.warned[key] <= b.show {
		b.warnings = append(b.warnings, f)
	}
}

// cannot notes, once, something that a check could not look at.
func (b *book) cannot(check, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if !slices.Contains(b.unable[check], why) {
		b.unable[check] = append(b.unable[check], why)
	}
}

// results sums up. skipped names the checks that nobody asked for.
func (b *book) results(skipped ...string) (list []CheckResult, verdict string) {
	verdict = Proved
	for _, c := range checks {
		r := CheckResult{Check: c.name, What: c.what, Status: Proved, Findings: b.totals[c.name], Unable: b.unable[c.name]}
		switch {
		case r.Findings > 0:
			r.Status, verdict = Refuted, Refuted
		case slices.Contains(skipped, c.name):
			r.Status = Skipped
		case len(r.Unable) > 0:
			r.Status = Incomplete
			if verdict == Proved {
				verdict = Incomplete
			}
		}
		list = append(list, r)
	}
	return list, verdict
}

// Count is how many findings there are of a kind; Findings shows the first of them.
type Count struct {
	Check string `json:"check"`
	Kind  string `json:"kind"`
	Total int    `json:"total"`
}

func counts(of map[string]int) []Count {
	var list []Count
	for key, n := range of {
		var c Count
		_, _ = fmt.Sscan(key, &c.Check, &c.Kind)
		c.Total = n
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Kind, b.Kind)) })
	return list
}
