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

// checks lists all checks in the order in which they are reported, each with the claim that it proves and the advice for an
// operator if it is refuted.
var checks = []struct{ name, what, do string }{
	{CheckFold, "the log folds, and every recorded and stored state is its fold",
		"if a store differs, stop its node and remove its state directory: it is rebuilt from the log. If a recorded hash differs, the engine has a defect: report it with this output"},
	{CheckOwnership, "one owner at each offset, which alone wrote its facts",
		"find out who else may write to the events topic, and revoke that permission"},
	{CheckInputs, "every input below the resume point was judged exactly once",
		"submit the lost inputs again, under the same IDs. Unless somebody changed the input topics, the engine has a defect: report it with this output"},
	{CheckAttempts, "one outcome for each attempt, in an order that the definition allows; ended tasks do not change",
		"look at each task with --task. The engine has a defect: report it with this output"},
	{CheckMovers, "every live task has something that will move it",
		"cancel or retry the task by hand. The engine has a defect: report it with this output"},
	{CheckUndo, "undo is complete and in reverse order",
		"compare the task with the services' data, and undo there whatever is left. The engine has a defect: report it with this output"},
	{CheckEffects, "every effect belongs to an accepted fact, and none below the watermark is missing",
		"find out who else may write to the topics named, and whether they lose records"},
	{CheckLedgers, "the services' ledgers agree with the log",
		"compare the service's data with the task (--task), and look at how the service treats identifiers that it knows"},
}

// Place is the place of a record.
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

// Finding is one thing that is wrong or, if it is a warning, that somebody should look at.
type Finding struct {
	Check string `json:"check"`
	// Kind groups findings. Only the first findings of a kind are kept.
	Kind string `json:"kind"`
	Place
	Task string `json:"task,omitempty"`
	Step string `json:"step,omitempty"`
	// What is the problem in one sentence.
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
	// Status is proved, refuted, incomplete (something could not be examined) or skipped (it was not requested).
	Status   string `json:"status"`
	Findings int    `json:"findings"`
	// Do is the advice for an operator if the check is refuted.
	Do string `json:"do,omitempty"`
	// Unable lists what could not be examined, and why.
	Unable []string `json:"unable,omitempty"`
	// Trimmed lists what is gone because nobody needed it any more: the check is about the rest.
	Trimmed []string `json:"trimmed,omitempty"`
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
	trimmed  map[string][]string
}

func newBook(show int) *book {
	if show <= 0 {
		show = 5
	}
	return &book{show: show, kinds: map[string]int{}, warned: map[string]int{}, totals: map[string]int{}, unable: map[string][]string{}, trimmed: map[string][]string{}}
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

// cannot notes, once, that a check could not examine something.
func (b *book) cannot(check, format string, args ...any) {
	note(b.unable, check, fmt.Sprintf(format, args...))
}

// gone notes, once, that records of a topic are trimmed, as the engine does with those that nobody needs any more.
func (b *book) gone(check, format string, args ...any) {
	note(b.trimmed, check, fmt.Sprintf(format, args...))
}

func note(all map[string][]string, check, why string) {
	if !slices.Contains(all[check], why) {
		all[check] = append(all[check], why)
	}
}

// results returns the outcome of each check. skipped names the checks that were not requested.
func (b *book) results(skipped ...string) (list []CheckResult, verdict string) {
	verdict = Proved
	for _, c := range checks {
		r := CheckResult{Check: c.name, What: c.what, Status: Proved, Findings: b.totals[c.name], Unable: b.unable[c.name], Trimmed: b.trimmed[c.name]}
		switch {
		case r.Findings > 0:
			r.Status, r.Do, verdict = Refuted, c.do, Refuted
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
