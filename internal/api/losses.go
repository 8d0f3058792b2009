package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	lossesPath   = "/v1/losses"
	acceptedPath = "/v1/accepted-losses"
	// acceptedBytes is more than an acceptance needs.
	acceptedBytes = 32 << 10
)

// Loss is the loss of an input's partition: the records from From up to, but not including, To were deleted before they were
// judged. If To equals From, the only missing record is the one before them, by which the topic is known to be the same.
type Loss struct {
	Input     events.Input `json:"input" doc:"submissions or reports"`
	Partition int32        `json:"partition"`
	From      int64        `json:"from" doc:"The offset of the first record that is not judged"`
	To        int64        `json:"to" doc:"The offset of the first record that still exists"`
	// Acceptable says that an operator can give it up.
	Acceptable bool   `json:"acceptable" doc:"POST /v1/accepted-losses can give it up. False: the topic has lost its end, and has to be restored"`
	What       string `json:"what" doc:"What is lost"`
}

// Command is the command that gives up the lost records.
func (l *Loss) Command() string {
	return fmt.Sprintf("sagalog namespace accept-loss --input %s --partition %d --from %d --to %d", l.Input, l.Partition, l.From, l.To)
}

// Remedy says what an operator can do.
func (l *Loss) Remedy() string {
	if !l.Acceptable {
		return "restore the topic from a copy; accept-loss cannot give this up"
	}
	return "restore the topic from a copy, or give up what is lost: " + l.Command()
}

// Covers says whether an accepted loss is exactly one of those that are lost now.
func Covers(lost []*Loss, a *events.AcceptedLoss) bool {
	return slices.ContainsFunc(lost, func(l *Loss) bool {
		return l.Acceptable && l.Input == a.Input && l.Partition == a.Partition && l.From == a.From && l.To == a.To
	})
}

// losses shows the losses of the inputs, and records those that an operator accepts.
type losses struct {
	losses     Losses
	partitions int32
	log        logger
}

// LossesDocument lists the losses of the inputs.
type LossesDocument struct {
	Losses []*Loss `json:"losses" nullable:"false"`
}

// LossesAnswer lists the losses of the inputs.
type LossesAnswer struct{ Body LossesDocument }

// AcceptedLossBody gives up the lost records of an input.
type AcceptedLossBody struct {
	Input     string `json:"input" enum:"submissions,reports"`
	Partition int32  `json:"partition" minimum:"0"`
	From      int64  `json:"from" minimum:"0" doc:"As GET /v1/losses says"`
	To        int64  `json:"to" minimum:"0" doc:"As GET /v1/losses says"`
	Reason    string `json:"reason,omitempty" doc:"Why, for the record"`
	By        string `json:"by,omitempty" doc:"Who gives it up, for the record"`
}

// AcceptedLossDocument is an accepted loss.
type AcceptedLossDocument struct {
	Input     events.Input `json:"input"`
	Partition int32        `json:"partition"`
	From      int64        `json:"from"`
	To        int64        `json:"to"`
	Offset    int64        `json:"offset" doc:"The offset of its record in the topic of definitions. The partition goes on by a fact InputLossAccepted with this offset"`
}

// AcceptedLossAnswer is an accepted loss.
type AcceptedLossAnswer struct{ Body AcceptedLossDocument }

func (l *losses) register(api huma.API) {
	tags := []string{"namespace"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-losses", Method: http.MethodGet, Path: lossesPath, Summary: "List inputs that were deleted before they were judged", Tags: tags,
		Description: "A partition stops when the next records of an input are gone. This lists them.",
	}), l.list)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "accept-loss", Method: http.MethodPost, Path: acceptedPath, Summary: "Give up inputs that were deleted before they were judged", Tags: tags,
		Description: "The stopped partition continues after them within moments. Lost submissions are gone; tasks that wait for lost reports continue " +
			"by their timeouts. Once answered, the acceptance is durable. 409 if the range is not exactly what is lost now, with the actual loss, or while a node of an older build is alive. Repeating the call has no further effect.",
	}), l.accept)
	example := map[string]any{"input": "submissions", "partition": 3, "from": 12, "to": 40, "reason": "retention was too short", "by": "anna"}
	describeBody(api, acceptedPath, http.MethodPost, described{reflect.TypeFor[AcceptedLossBody](), example, acceptedBytes}, contentJSON)
}

func (l *losses) failed(ctx context.Context, act string, err error) error {
	if errors.Is(err, ErrNoAnswer) {
		return problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment, or this node has not heard the others for long enough, or is far behind the log. Ask again.").retryAfter(time.Second)
	}
	return l.log.internal(ctx, act, err)
}

func (l *losses) list(ctx context.Context, _ *struct{}) (*LossesAnswer, error) {
	list, err := l.losses.Losses(ctx)
	if err != nil {
		return nil, l.failed(ctx, "look for lost inputs", err)
	}
	return &LossesAnswer{Body: LossesDocument{Losses: append([]*Loss{}, list...)}}, nil
}

func (l *losses) accept(ctx context.Context, _ *struct{}) (*AcceptedLossAnswer, error) {
	x := exchangeOf(ctx)
	a, err := x.readAcceptedLoss(l.partitions)
	if err != nil {
		return nil, err
	}
	a.By = x.by(a.By)
	offset, now, err := l.losses.AcceptLoss(ctx, a)
	var older *OlderNodeError
	switch {
	case errors.As(err, &older):
		return nil, problem(http.StatusConflict, codePrecondition, older.Error())
	case err != nil:
		return nil, l.failed(ctx, "accept a loss", err)
	case offset == 0:
		return nil, problem(http.StatusConflict, codePrecondition, NotLost(&a, now))
	}
	return &AcceptedLossAnswer{Body: AcceptedLossDocument{Input: a.Input, Partition: a.Partition, From: a.From, To: a.To, Offset: offset}}, nil
}

// NotLost says why a loss is not accepted. now is the actual loss.
func NotLost(a *events.AcceptedLoss, now []*Loss) string {
	text := fmt.Sprintf("This is not what %s partition %d has lost, so nothing is given up", a.Input, a.Partition)
	found := false
	for _, l := range now {
		if l.Partition == a.Partition {
			text += "; " + strings.TrimSuffix(l.What, ".") + "; " + l.Remedy()
			found = true
		}
	}
	if !found {
		text += ": all its inputs that are still to be judged exist"
	}
	return text + "."
}

// readAcceptedLoss reads an acceptance.
func (x exchange) readAcceptedLoss(partitions int32) (a events.AcceptedLoss, err error) {
	data, err := x.readBody(acceptedBytes, "an accepted loss")
	if err == nil {
		err = x.acceptsJSON()
	}
	if err != nil {
		return a, err
	}
	var faults []ProblemPlace
	wrong := func(name, message string) {
		faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: message})
	}
	required := []string{"input", "partition", "from", "to"}
	missing := map[string]bool{"input": true, "partition": true, "from": true, "to": true}
	err = x.readMembers(data, append(slices.Clone(required), "reason", "by"), func(name string, raw json.RawMessage) {
		delete(missing, name)
		switch name {
		case "input":
			if json.Unmarshal(raw, &a.Input) != nil || !slices.Contains(events.Inputs[:], a.Input) {
				wrong(name, "is not submissions or reports")
			}
		case "partition":
			if json.Unmarshal(raw, &a.Partition) != nil || a.Partition < 0 || a.Partition >= partitions {
				wrong(name, fmt.Sprintf("is not a partition from 0 to %d", partitions-1))
			}
		case "from":
			if json.Unmarshal(raw, &a.From) != nil || a.From < 0 {
				wrong(name, "is not an offset")
			}
		case "to":
			if json.Unmarshal(raw, &a.To) != nil || a.To < 0 {
				wrong(name, "is not an offset")
			}
		case "reason":
			if json.Unmarshal(raw, &a.Reason) != nil || len(a.Reason) > maxReason {
				wrong(name, fmt.Sprintf("is not a text of at most %d bytes", maxReason))
			}
		case "by":
			if json.Unmarshal(raw, &a.By) != nil || len(a.By) > events.MaxTaskID {
				wrong(name, "is not a text of at most 255 bytes")
			}
		}
	})
	if err != nil {
		return a, err
	}
	for _, name := range required {
		if missing[name] {
			wrong(name, "is missing")
		}
	}
	if len(faults) == 0 && a.To < a.From {
		wrong("to", "is below from")
	}
	if len(faults) > 0 {
		return a, problem(http.StatusUnprocessableEntity, codeInvalid, "The loss cannot be accepted like this; nothing is given up.", faults...)
	}
	return a, nil
}
