package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// jobReader reads the body of the call that opens a job, and collects its faults.
type jobReader struct {
	x      exchange
	job    events.Job
	dry    bool
	faults []ProblemPlace
}

func (r *jobReader) fault(pointer, format string, args ...any) {
	r.faults = append(r.faults, ProblemPlace{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// inside takes over the faults of a part of the body. A problem that is not about places of it is returned.
func (r *jobReader) inside(pointer string, err error) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok || len(p.Errors) == 0 {
		return err
	}
	for _, e := range p.Errors {
		e.Pointer = pointer + e.Pointer
		r.faults = append(r.faults, e)
	}
	return nil
}

func (x exchange) readJob() (job events.Job, dry bool, err error) {
	data, err := x.readBody(jobBytes, "a job")
	if err == nil {
		err = x.acceptsJSON()
	}
	if err != nil {
		return job, false, err
	}
	r := &jobReader{x: x}
	members := map[string]json.RawMessage{}
	err = x.readMembers(data, []string{"id", "verb", "args", "filter", "reason", "by", "rate", "limit", "dry_run"}, func(name string, raw json.RawMessage) { members[name] = raw })
	if err == nil {
		err = r.read(members)
	}
	if err != nil {
		return job, false, err
	}
	if len(r.faults) > 0 {
		slices.SortFunc(r.faults, func(a, b ProblemPlace) int { return strings.Compare(a.Pointer, b.Pointer) })
		return job, false, problem(http.StatusUnprocessableEntity, codeInvalid, "The job cannot be opened like this; nothing is done.", r.faults...)
	}
	return r.job, r.dry, nil
}

func (r *jobReader) read(members map[string]json.RawMessage) error {
	j := &r.job
	for name, into := range map[string]any{
		"id": &j.ID, "verb": &j.Verb, "reason": &j.Reason, "by": &j.By, "rate": &j.Rate, "limit": &j.Limit, "dry_run": &r.dry,
	} {
		if raw, given := members[name]; given && json.Unmarshal(raw, into) != nil {
			r.fault("/"+name, "is not %s", cmp.Or(map[string]string{"limit": "a whole number", "dry_run": "true or false"}[name], "a text"))
		}
	}
	if _, given := members["id"]; given {
		if err := events.CheckJobID(j.ID); err != nil {
			r.fault("/id", "%s", err)
		}
	}
	if _, given := members["limit"]; given && j.Limit < 1 {
		r.fault("/limit", "is less than 1; leave it out for no limit")
	}
	if len(j.Reason) > maxReason {
		r.fault("/reason", "is longer than %d bytes", maxReason)
	}
	if len(j.By) > events.MaxTaskID {
		r.fault("/by", "is longer than %d bytes", events.MaxTaskID)
	}
	if _, err := events.ParseRate(j.Rate); err != nil {
		r.fault("/rate", "%s", err)
	}
	if err := r.readVerb(members["args"]); err != nil {
		return err
	}
	return r.readFilter(members["filter"])
}

// readVerb reads the verb and its members, which are those of the call for one task. An attempt differs from task to task.
func (r *jobReader) readVerb(args json.RawMessage) error {
	j := &r.job
	verbs := make([]string, 0, len(events.Verbs()))
	for _, v := range events.Verbs() {
		verbs = append(verbs, string(v))
	}
	switch {
	case j.Verb == "":
		r.fault("/verb", "is missing; the verbs are %s", strings.Join(verbs, ", "))
		return nil
	case !slices.Contains(verbs, string(j.Verb)):
		r.fault("/verb", "is not a verb; %s", events.Suggest(string(j.Verb), verbs))
		return nil
	}
	var q events.Request
	if args != nil {
		known := slices.DeleteFunc(slices.Clone(j.Verb.Members()), func(name string) bool { return name == "attempt" })
		before := len(r.faults)
		var err error
		if q, err = r.x.requestMembers(j.Verb, known, args); err != nil {
			if err := r.inside("/args", err); err != nil {
				return err
			}
		}
		if len(r.faults) > before {
			return nil
		}
		if j.Args, err = events.Compact(args); err != nil {
			r.fault("/args", "is %s", err)
		}
	}
	needed := map[events.Verb]string{events.RequestSkip: "step", events.RequestComplete: "step", events.RequestFail: "step", events.RequestSignal: "signal"}[j.Verb]
	if needed == "step" && q.Step == "" || needed == "signal" && q.Signal == "" {
		r.fault("/args/"+needed, "is missing: name the %s", needed)
	}
	return nil
}

// readFilter reads the filter, whose members are the parameters of a list of tasks.
func (r *jobReader) readFilter(data json.RawMessage) error {
	f := &r.job.Filter
	if data == nil {
		r.fault("/filter", `is missing; {"all": true} matches every task`)
		return nil
	}
	before := len(r.faults)
	texts := map[string]*string{
		"workflow": &f.Workflow, "since": &f.Since, "until": &f.Until, "schedule": &f.Schedule, "failed_step": &f.FailedStep, "error_code": &f.ErrorCode,
		"older_than": &f.OlderThan,
	}
	known := []string{"all", "state", "workflow", "label", "since", "until", "schedule", "failed_step", "error_code", "older_than"}
	err := r.x.readMembers(data, known, func(name string, raw json.RawMessage) {
		at, ok := "/filter/"+name, true
		if list, isText := textsOf(raw); isText && (len(list) == 0 || slices.Contains(list, "")) {
			r.fault(at, "is empty; leave it out if it is not to filter") // the text is often a variable that was not set
			return
		}
		switch name {
		case "all":
			ok = json.Unmarshal(raw, &f.All) == nil
		case "label":
			f.Label, ok = textsOf(raw)
			for _, l := range f.Label {
				if k, _, pair := strings.Cut(l, ":"); !pair || k == "" {
					r.fault(at, "is not key:value, or a list of these")
				}
			}
		case "state":
			var states []string
			if states, ok = textsOf(raw); ok {
				if f.State, ok = parseStates(states); !ok {
					r.fault(at, "is not a state; the states are %s; %s means %s", strings.Join(taskStates, ", "), stateParked, events.TaskStateError)
					ok = true
				}
			}
		default:
			ok = json.Unmarshal(raw, texts[name]) == nil
		}
		if !ok {
			r.fault(at, "is not of the right type; see the parameter %s of GET /v1/tasks", name)
		}
	})
	if err != nil {
		return r.inside("/filter", err)
	}
	if _, _, err := (&events.JobFilter{Since: f.Since}).Window(0); err != nil {
		r.fault("/filter/since", "%s", err)
	}
	if _, _, err := (&events.JobFilter{Until: f.Until}).Window(0); err != nil {
		r.fault("/filter/until", "%s", err)
	}
	if _, err := (&events.JobFilter{OlderThan: f.OlderThan}).Match(0); err != nil {
		r.fault("/filter/older_than", "%s", err)
	}
	switch {
	case len(r.faults) > before:
	case f.Empty() && !f.All:
		r.fault("/filter", `is empty; {"all": true} matches every task`)
	case f.All && !f.Empty():
		r.fault("/filter/all", "is true, but the filter has other members; leave it out")
	}
	return nil
}

// textsOf reads a text or a list of texts.
func textsOf(raw json.RawMessage) (list []string, ok bool) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, true
	}
	ok = json.Unmarshal(raw, &list) == nil
	return list, ok
}
