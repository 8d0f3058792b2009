package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	// webhookReason bounds the reason in a message, in bytes.
	webhookReason = 1024
	// webhookLabels bounds the labels in a message, in bytes. A message with more labels has none.
	webhookLabels = 8 << 10
	// webhookFold is how long a message waits until this node's store has folded its fact. After that it is sent without what the store would add.
	webhookFold = 2 * time.Second
)

// webhookBody is the body of a message.
type webhookBody struct {
	Type string         `json:"type"`
	Time events.Instant `json:"timestamp"`
	Data webhookData    `json:"data"`
}

// webhookData says what happened. It holds neither inputs nor outputs.
type webhookData struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Task      string            `json:"task,omitempty"`
	Workflow  string            `json:"workflow,omitempty"`
	Run       int               `json:"run,omitzero"`
	State     events.TaskState  `json:"state,omitempty"`
	Step      string            `json:"step,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Schedule  string            `json:"schedule,omitempty"`
	Limit     string            `json:"limit,omitempty"`
	Agent     string            `json:"agent,omitempty"`
	Function  string            `json:"function,omitempty"`
	Operation events.Operation  `json:"operation,omitempty"`
	Reminder  int               `json:"reminder,omitzero"`
	Since     events.Instant    `json:"since,omitzero"`
	By        string            `json:"by,omitempty"`
}

// tells says whether facts of a kind may cause messages.
func tells(kind events.Name) bool {
	return supervisor.RaisesAlerts(kind) || kind == events.NameTaskTerminated || kind == events.NameTaskProcessed
}

// contentOf returns the kind and the content of the message about a fact, or no kind if the fact causes no message.
func contentOf(f *events.Fact) (d webhookData) {
	switch b := f.Body.(type) {
	case *events.TaskProcessed:
		return webhookData{Kind: endProcessed, Task: f.Task, State: events.TaskStateProcessed}
	case *events.TaskTerminated:
		return webhookData{Kind: endTerminated, Task: f.Task, State: events.TaskStateTerminated, Reason: b.Reason, By: b.By}
	}
	a, _ := supervisor.AlertOf(f)
	d = alertData(&a)
	switch a.Kind {
	case supervisor.AlertParked:
		d.State = events.TaskStateError
	case supervisor.AlertUndone:
		d.State = events.TaskStateUndone
	}
	return d
}

func alertData(a *supervisor.Alert) webhookData {
	return webhookData{
		Kind: a.Kind, Task: a.Task, Workflow: a.Workflow, Step: a.Step, Reason: a.Reason, Schedule: a.Schedule, Limit: a.Limit, Agent: a.Agent, Function: a.Function,
		Operation: a.Operation, Reminder: a.Reminder, Since: a.Since,
	}
}

// wanted says whether a record is to be delivered. Alerts that facts raise are delivered from the topic of events, so only alerts that no fact
// raises are taken from the topic of alerts.
func (w *webhooks) wanted(r *events.Record, log *authority) (bool, error) {
	if r.Topic == w.ns.topics.Alerts() {
		var a supervisor.Alert
		err := json.Unmarshal(r.Value, &a) // records that are not alerts are not delivered
		return err == nil && a.Kind == supervisor.AlertMissing && w.on[a.Kind], nil
	}
	f, err := log.fact(r, tells)
	return f != nil && w.on[contentOf(f).Kind], err
}

var errUnwanted = errors.New("the record causes no message")

// message makes the message of a record that was found wanted.
func (w *webhooks) message(ctx context.Context, r *events.Record) (webhook.Message, error) {
	var id string
	body := webhookBody{}
	if r.Topic == w.ns.topics.Alerts() {
		var a supervisor.Alert
		if err := json.Unmarshal(r.Value, &a); err != nil {
			return webhook.Message{}, err
		}
		sum := sha256.Sum256([]byte(r.Header(events.HeaderID))) // the header has dots, and a signed ID must not
		id, body.Time, body.Data = a.Kind+"/"+hex.EncodeToString(sum[:16]), a.Time, alertData(&a)
	} else {
		f, err := events.DecodeFact(r)
		if err != nil {
			return webhook.Message{}, err
		}
		id, body.Time, body.Data = events.FactID(f, r.Partition), f.Time, contentOf(f)
		w.describe(ctx, r, f, &body.Data)
	}
	d := &body.Data
	if !w.on[d.Kind] {
		return webhook.Message{}, errUnwanted
	}
	body.Type, d.Namespace, d.Partition, d.Offset, d.Reason = webhookKinds[d.Kind], w.ns.name, r.Partition, r.Offset, events.Clip(d.Reason, webhookReason)
	b, err := json.Marshal(body)
	return webhook.Message{ID: id, Body: b}, err
}

// describe adds what only the state knows of the task. If the task has been forgotten since, or its ID belongs to another one, nothing is
// added.
func (w *webhooks) describe(ctx context.Context, r *events.Record, f *events.Fact, d *webhookData) {
	if f.Task == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, webhookFold)
	defer cancel()
	if _, err := w.store.Wait(ctx, r.Partition, func(i projector.Info) bool { return i.Next > r.Offset }); err != nil {
		return
	}
	t, found, err := w.store.Get(r.Partition, f.Task)
	if err != nil || !found {
		return
	}
	if began, err := events.ParsePosition(t.Incarnation); err != nil || !began.Before(f.Position()) {
		return
	}
	d.Workflow = t.Workflow
	if t.Run == 1 || f.Time == t.EndedAt || f.Time == t.ParkedAt { // otherwise the fact may be of an earlier run
		d.Run = t.Run
	}
	if b, err := json.Marshal(t.Labels); err == nil && len(b) <= webhookLabels {
		d.Labels = t.Labels
	}
}
