package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

const (
	// actBytes bounds each text of an act, so that all that are kept take a few megabytes at most.
	actBytes = 1024
	// requestOfJob is how the IDs of a job's requests begin. A job is one act.
	requestOfJob = "job/"
	// kindLetter is the kind of an act about a dead letter.
	kindLetter = "dead_letter"
)

// acts keeps what operators did lately: the requests that the owners of this node judged since it started, and the latest records of operators
// in the definitions. It implements api.Acts.
type acts struct {
	begun events.Instant

	// mu guards the fields below.
	mu               sync.Mutex
	judged, recorded []api.Act
	// marks is how many marks of dead letters the latest recorded act stands for.
	marks int
}

func newActs(now time.Time) *acts { return &acts{begun: events.At(now)} }

// Decided implements api.Acts.
func (a *acts) Decided() ([]api.Act, events.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.judged), a.begun
}

// Defined implements api.Acts.
func (a *acts) Defined() []api.Act {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.recorded)
}

// keep adds an act to a list, which forgets its oldest one. It is called with mu held.
func keep(list []api.Act, x api.Act) []api.Act {
	for _, text := range []*string{&x.By, &x.Subject, &x.Detail, &x.Reason, &x.Request} {
		*text = events.Clip(*text, actBytes)
	}
	if len(list) >= api.MaxActs {
		list = slices.Delete(list, 0, len(list)-api.MaxActs+1)
	}
	return append(list, x)
}

// fact takes a durable fact of an owner.
func (a *acts) fact(f *events.Fact) {
	x := actAboutTask(f.Body)
	if x.Verb == "" {
		x = actAboutPart(f.Body)
	} else {
		x.Kind, x.Subject = "task", f.Task
	}
	ofProgram := strings.HasPrefix(x.Request, requestOfJob) || events.ScheduleOfKey(x.By) != "" || x.Verb == string(events.RequestSignal)
	if x.Request == "" || ofProgram {
		return
	}
	x.At = f.Time
	if x.Result == "" {
		x.Result = api.ActGranted
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.judged = keep(a.judged, x)
}

// actAboutTask returns the act behind a fact of a task: without a verb if there is no act, and without a request if no operator asked for it.
func actAboutTask(body events.Body) api.Act {
	act := func(v events.Verb, request, by, reason string, steps ...string) api.Act {
		return api.Act{Verb: string(v), Request: request, By: by, Reason: reason, Detail: strings.Join(steps, ", ")}
	}
	decided := func(v events.Verb, o events.Operator, step string) api.Act {
		return act(v, o.Request, o.By, o.Reason, step)
	}
	switch b := body.(type) {
	case *events.CancelRequested:
		return act(events.RequestCancel, b.Request, b.By, b.Reason)
	case *events.TaskPaused:
		return act(events.RequestPause, b.Request, b.By, b.Reason)
	case *events.TaskResumed:
		return act(events.RequestResume, b.Request, b.By, b.Reason)
	case *events.TaskReopened:
		return act(events.RequestRetry, b.Request, b.By, b.Reason, b.Steps...)
	case *events.TaskRerun:
		return act(events.RequestRerun, b.Request, b.By, b.Reason, b.Steps...)
	case *events.TaskTerminated:
		return act(events.RequestTerminate, b.Request, b.By, b.Reason)
	case *events.StepSkipped:
		return decided(events.RequestSkip, b.Operator, b.Step)
	case *events.StepCompleted:
		return decided(events.RequestComplete, b.Operator, b.Step)
	case *events.Compensated:
		return decided(events.RequestComplete, b.Operator, b.Step)
	case *events.StepFailed:
		return decided(events.RequestFail, b.Operator, b.Step)
	case *events.CompensationFailed:
		return decided(events.RequestFail, b.Operator, b.Step)
	case *events.RequestRefused:
		x := act(b.Verb, b.Request, b.By, b.Reason)
		x.Result = api.ActRefused
		return x
	}
	return api.Act{}
}

// actAboutPart returns the act behind a fact about a schedule or a limit.
func actAboutPart(body events.Body) api.Act {
	switch b := body.(type) {
	case *events.SchedulePaused:
		return api.Act{Verb: "pause", Kind: "schedule", Subject: b.Schedule, Request: b.Request, By: b.By, Reason: b.Reason}
	case *events.ScheduleResumed:
		return api.Act{Verb: "resume", Kind: "schedule", Subject: b.Schedule, Request: b.Request, By: b.By, Reason: b.Reason}
	case *events.ScheduleFired:
		return api.Act{Verb: "trigger", Kind: "schedule", Subject: b.Schedule, Detail: b.Task, Request: b.Request, By: b.By, Reason: b.Reason}
	case *events.LimitPaused:
		return api.Act{Verb: "pause", Kind: "limit", Subject: b.Limit, Request: b.Request, By: b.By, Reason: b.Reason}
	case *events.LimitResumed:
		return api.Act{Verb: "resume", Kind: "limit", Subject: b.Limit, Request: b.Request, By: b.By, Reason: b.Reason}
	}
	return api.Act{}
}

// record takes a record of the definitions that the catalog has taken.
func (a *acts) record(r *events.Record) {
	body, act := recordedAct(r.Header(events.HeaderType))
	if body == nil || r.Value == nil {
		return
	}
	e, data, err := events.Open(r)
	if err != nil || json.Unmarshal(data, body) != nil {
		return
	}
	x := act()
	if x.Verb == "" {
		return
	}
	x.At, _ = events.ParseInstant(e.Time)
	x.Result = api.ActGranted
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.Kind == kindLetter { // those of a bulk are one act
		if n := len(a.recorded) - 1; a.marks > 0 && a.recorded[n].Verb == x.Verb && a.recorded[n].By == x.By && a.recorded[n].Reason == x.Reason {
			a.marks++
			x.Detail = fmt.Sprintf("and %d more before it", a.marks-1)
			a.recorded = a.recorded[:n]
		} else {
			a.marks = 1
		}
	} else {
		a.marks = 0
	}
	a.recorded = keep(a.recorded, x)
}

// recordedAct returns where to read a record of that type, and what then makes an act of it, without a verb if no operator did it.
func recordedAct(kind string) (body any, act func() api.Act) {
	switch kind {
	case events.TypeAgentPause:
		b := &events.AgentPause{}
		return b, func() api.Act {
			verb := "resume"
			if b.Paused {
				verb = "pause"
			}
			return api.Act{Verb: verb, Kind: "agent", Subject: b.Agent, By: b.By, Reason: b.Reason}
		}
	case events.TypeAlertAcknowledgement:
		b := &events.AlertAcknowledgement{}
		return b, func() api.Act {
			if b.Over {
				return api.Act{}
			}
			return api.Act{Verb: "acknowledge", Kind: "alert", Subject: b.Alert, By: b.By, Reason: b.Note}
		}
	case events.TypeDeadLetterMark:
		b := &events.DeadLetterMark{}
		return b, func() api.Act {
			verb, detail := map[string]string{events.MarkRedriven: "redrive", events.MarkDismissed: "dismiss", "": "reopen"}[b.Mark], ""
			if b.Task != "" {
				detail = "task " + b.Task
			}
			return api.Act{Verb: verb, Kind: kindLetter, Subject: b.Letter, Detail: detail, By: b.By, Reason: b.Reason}
		}
	case events.TypeJob:
		b := &events.Job{}
		return b, func() api.Act {
			return api.Act{Verb: "open", Kind: "job", Subject: b.ID, Detail: string(b.Verb), By: b.By, Reason: b.Reason}
		}
	case events.TypeJobStop:
		b := &events.JobStop{}
		return b, func() api.Act { return api.Act{Verb: "stop", Kind: "job", Subject: b.Job, By: b.By, Reason: b.Reason} }
	case events.TypeSettings:
		b := &events.SettingsChange{}
		return b, func() api.Act {
			if b.Initial {
				return api.Act{}
			}
			return api.Act{Verb: "change", Kind: "settings", Detail: strings.Join(slices.Sorted(maps.Keys(b.Settings)), ", "), By: b.By}
		}
	case events.TypeLoss:
		b := &events.AcceptedLoss{}
		return b, func() api.Act {
			return api.Act{Verb: "accept-loss", Kind: "loss", Subject: strings.TrimPrefix(b.Key(), "accept-loss/"), By: b.By, Reason: b.Reason}
		}
	}
	return nil, nil
}
