package events

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// readSubmission reads a submission without faults. It returns nil where there may be one: ParseSubmission then finds and
// names it.
func readSubmission(data []byte) *Submission {
	if !utf8.Valid(data) {
		return nil
	}
	s := new(Submission)
	r := read(data)
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "id":
			n = 0
			r.text(&s.ID)
		case "workflow":
			n = 1
			r.text(&s.Workflow)
		case "version":
			n, s.Version = 2, r.number()
			r.expect(s.Version > 0)
		case "input":
			n, s.Input = 3, r.compact()
		case "priority":
			n, s.Priority = 4, r.number()
			r.expect(s.Priority >= -MaxPriority && s.Priority <= MaxPriority)
		case "labels":
			n, s.Labels = 5, r.submittedLabels()
		case "deadline":
			n = 6
			r.text(&s.Deadline)
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
	if !r.done() || s.Workflow == "" {
		return nil
	}
	// The texts are there only now.
	if seen&(1<<0) != 0 && CheckTaskID(s.ID) != nil || seen&(1<<6) != 0 && s.checkDeadline() != nil {
		return nil
	}
	return s
}

func (r *reader) expect(so bool) {
	if !so {
		r.doubt()
	}
}

// compact reads a value of any kind and returns it without spaces.
func (r *reader) compact() json.RawMessage {
	before := r.spaced
	r.spaced = false
	b := r.span()
	value := scanner{b: b, spaced: r.spaced}
	r.spaced = r.spaced || before
	return value.compacted()
}

func (r *reader) submittedLabels() map[string]string {
	labels := make(map[string]string)
	for ok := r.begin('{'); ok; ok = r.more('{') {
		name := r.name()
		value := r.word()
		_, twice := labels[string(name)]
		r.expect(!twice && len(name) > 0 && len(name) <= MaxLabelKey && len(value) <= MaxLabelValue && len(labels) < MaxLabels)
		if !r.odd {
			r.expect(!strings.Contains(string(name), ":"))
			labels[string(name)] = value
		}
	}
	return labels
}
