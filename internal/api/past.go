package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

// pastPage is how many facts of a task are in memory at once. How many a task has is bounded by the setting task_facts, and by
// events.MaxRequests for refused requests.
const pastPage = 100

// pastsAtOnce bounds the tasks that are shown as they were at the same time: each may read thousands of records from the log, twice. It is enough for
// two people who drag the scrubber, whose page asks for two at once. pastWait is how long another one waits
// for its turn.
const (
	pastsAtOnce = 4
	pastWait    = 2 * time.Second
)

// pastWithin bounds how long the facts of a task are read: half of what the CLI waits for an answer. pastAnswer is how long a node that passes the
// request on waits for the owner: longer than the owner takes in any case, so that the owner says why it has no answer.
const (
	pastWithin = 30 * time.Second
	pastAnswer = pastWait + pastWithin + proxy.AnswerWithin
)

// AtDocument is the fact after which a task is shown.
type AtDocument struct {
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	Time      events.Instant `json:"time" format:"date-time"`
}

// past shows tasks as they were. It always folds the facts of a task from the first one.
type past struct {
	history    History
	documents  documents
	partitions int32
	log        logger
	// turns holds a place for each of those that are made now.
	turns chan struct{}
}

func newPast(h History, d documents, partitions int32, log logger) past {
	return past{h, d, partitions, log, make(chan struct{}, pastsAtOnce)}
}

// enter waits for a turn, which leave ends.
func (s *past) enter(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, pastWait)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		return nil
	case <-wait.Done():
		return problem(http.StatusServiceUnavailable, codeUnavailable, "The pasts of other tasks are being read at this node. Ask again.").retryAfter(time.Second)
	}
}

func (s *past) leave() { <-s.turns }

// moment is the value of the parameter at: an offset, or an instant if the offset is negative.
type moment struct {
	offset int64
	time   events.Instant
}

// parseAt reads an instant or partition@offset. Only the home partition of the task has facts of it.
func parseAt(text string, home int32) (moment, error) {
	p, o, place := strings.Cut(text, "@")
	if !place {
		at, err := events.ParseInstant(text)
		if err != nil {
			return moment{}, parameterProblem("at", "is neither an instant such as 2026-11-21T14:00:00Z nor partition@offset such as 3@1200")
		}
		return moment{offset: -1, time: at}, nil
	}
	partition, errP := strconv.ParseInt(p, 10, 32)
	offset, errO := strconv.ParseInt(o, 10, 64)
	switch {
	case errP != nil || errO != nil || partition < 0 || offset < 0:
		return moment{}, parameterProblem("at", "is not partition@offset such as 3@1200")
	case int32(partition) != home:
		return moment{}, parameterProblem("at", fmt.Sprintf("names partition %d, but the facts of this task are in partition %d: write %d@%d", partition, home, home, offset))
	}
	return moment{offset: offset}, nil
}

func (s *past) get(ctx context.Context, in *TaskQuery) (*TaskAnswer, error) {
	if in.Wait != "" || in.Token != "" {
		return nil, parameterProblem("at", "shows the past, so there is nothing to wait for: leave out wait and token")
	}
	t, e, at, err := s.task(ctx, in.ID, in.At)
	if err != nil {
		return nil, err
	}
	doc, err := s.documents.of(ctx, t)
	if err != nil {
		return nil, err
	}
	doc.At = e.at()
	if doc.LockedBy = ""; !t.State.Ended() {
		doc.LockedBy = e.Owner
	}
	doc.WaitingFor = s.documents.waitedFor(t, max(e.Time, at.time))
	return &TaskAnswer{Body: doc}, nil
}

func (e *HistoryEvent) at() *AtDocument {
	return &AtDocument{Partition: e.Partition, Offset: e.Offset, Time: e.Time}
}

// task returns the task as it was at the moment of the parameter at, and its last fact then.
func (s *past) task(ctx context.Context, id, text string) (*events.Task, HistoryEvent, moment, error) {
	at, err := parseAt(text, events.Home(id, s.partitions))
	if err != nil {
		return nil, HistoryEvent{}, at, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, HistoryEvent{}, at, err
	}
	defer s.leave()
	reading, cancel := context.WithTimeout(ctx, pastWithin)
	defer cancel()
	t, e, err := s.read(reading, id, at)
	if err != nil && ctx.Err() == nil && reading.Err() != nil {
		err = problem(http.StatusServiceUnavailable, codeUnavailable,
			fmt.Sprintf("The facts of this task could not be read from the log within %s. Ask again, or read its history in pages.", pastWithin)).retryAfter(time.Second)
	}
	return t, e, at, err
}

// read returns the task as it was, and its last fact then.
func (s *past) read(ctx context.Context, id string, at moment) (*events.Task, HistoryEvent, error) {
	if at.offset < 0 {
		var err error
		if at.offset, err = s.lastBefore(ctx, id, at.time); err != nil {
			return nil, HistoryEvent{}, err
		}
	}
	t, last, err := s.fold(ctx, id, at.offset)
	if err != nil {
		return nil, HistoryEvent{}, err
	}
	return s.documents.opened(t), EventOf(last), nil
}

// each calls use with the facts of a task, oldest first, until use returns false or an error.
func (s *past) each(ctx context.Context, id string, use func(LoggedFact) (bool, error)) error {
	for from := int64(0); ; {
		page, err := s.history.History(ctx, id, from, pastPage)
		if err != nil {
			return s.log.internal(ctx, "read a history", err)
		}
		for _, f := range page {
			if more, err := use(f); err != nil || !more {
				return err
			}
		}
		if len(page) < pastPage {
			return nil
		}
		from = page[len(page)-1].Record.Offset + 1
	}
}

// lastBefore returns the offset of the last fact that is not later than the instant, or -1. All facts are looked at: after a
// TimeCorrected their times begin again at an earlier one, and the later facts are right.
func (s *past) lastBefore(ctx context.Context, id string, at events.Instant) (int64, error) {
	last := int64(-1)
	return last, s.each(ctx, id, func(f LoggedFact) (bool, error) {
		if EventOf(f).Time <= at {
			last = f.Record.Offset
		}
		return true, nil
	})
}

// fold returns the task after its last fact at or before the offset, and that fact.
func (s *past) fold(ctx context.Context, id string, offset int64) (*events.Task, LoggedFact, error) {
	p := events.NewPast(id)
	var last LoggedFact
	err := s.each(ctx, id, func(logged LoggedFact) (bool, error) {
		if logged.Record.Offset > offset && p.Task() != nil {
			return false, nil
		}
		f, err := events.DecodeFact(&logged.Record)
		if err == nil {
			begun := p.Task() != nil
			if err = p.Apply(f); err != nil && !begun {
				return false, trimmed(logged)
			}
		}
		if err != nil {
			return false, s.log.internal(ctx, "fold the facts of a task", err)
		}
		if t := p.Task(); logged.Record.Offset > offset && t != nil {
			if _, carried := f.Body.(*events.EntityCarried); carried {
				return false, notInThisLog(t, logged)
			}
			return false, notThen(logged)
		}
		last = logged
		return true, nil
	})
	if err == nil && p.Task() == nil {
		err = taskNotFound()
	}
	return p.Task(), last, err
}

// notThen says that the task did not exist yet, and when it was submitted.
func notThen(submitted LoggedFact) *Problem {
	return problem(http.StatusGone, codeBeforeLog, "The task did not exist then. It was submitted at "+placeOf(submitted)+": ask for that moment or a later one.")
}

// notInThisLog says that the log holds the task only from its carry on, because the namespace was copied or its log was cut. The state of the task has the
// time of its submission.
func notInThisLog(t *events.Task, carried LoggedFact) *Problem {
	return problem(http.StatusGone, codeBeforeLog, fmt.Sprintf("The task was submitted at %s, but this log has its facts only from %s on, because the namespace was copied or its log was cut: ask for that moment or a later one.",
		t.SubmittedAt, placeOf(carried)))
}

// trimmed says that the first facts of a task are gone, so its earlier states are not known.
func trimmed(first LoggedFact) *Problem {
	return problem(http.StatusGone, codeBeforeLog, "The facts of this task before "+placeOf(first)+
		" were trimmed from the log, so its past is not known. Read the task without at, or what is left of its history.")
}

func placeOf(f LoggedFact) string {
	e := EventOf(f)
	return fmt.Sprintf("%s (%d@%d)", e.Time, e.Partition, e.Offset)
}

// waitedFor returns what the steps of the task waited for, as far as its facts say. They name neither the holders of permits nor the agents
// that were running.
func (s documents) waitedFor(t *events.Task, at events.Instant) (list []WaitingDocument) {
	for w := range events.WaitingFor(t, at) {
		list = append(list, s.waitedDocument(t, w, false))
	}
	return list
}

func (s documents) waitedDocument(t *events.Task, w events.WaitReason, brief bool) WaitingDocument {
	d := WaitingDocument{Step: w.Step, Kind: w.Kind, Since: w.Since, Until: w.Until}
	switch w.Kind {
	case events.WaitingPaused:
		d.For = pausedBy(t.Paused.By, t.Paused.Reason)
	case events.WaitingOperator:
		d.For = s.parkedBecause(t, t.Reason, brief)
	case events.WaitingSignal:
		d.For = strings.Join(t.Step(w.Step).Wait.Signals, ", ")
	case events.WaitingChild:
		d.For = doneByChild(t.Step(w.Step))
	case events.WaitingConcurrency:
		d.For = limitName(t.Permit.Limit)
	case events.WaitingLimit:
		if p := waitingPermit(t, w.Step); p != nil {
			d.For = limitName(p.Limit)
		}
	case events.WaitingAgent, events.WaitingKey:
		d.For = refusedBy(t, w)
	}
	return d
}
