package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// AlertPath is the path of one alert.
type AlertPath struct {
	ID string `path:"id" doc:"The ID of an open alert"`
}

// AcknowledgedAlert is an alert that somebody has acknowledged.
type AcknowledgedAlert struct {
	Alert
	Changed bool `json:"changed" doc:"False: somebody had acknowledged it before, and that acknowledgement stays"`
}

// AcknowledgedAnswer is an alert that somebody has acknowledged.
type AcknowledgedAnswer struct{ Body AcknowledgedAlert }

// AcknowledgeBody is the body of the call that acknowledges an alert.
type AcknowledgeBody struct {
	Note   string `json:"note,omitempty" doc:"What is being done about it, for others who see the alert"`
	Reason string `json:"reason,omitempty" doc:"The same as note"`
	By     string `json:"by,omitempty" doc:"Who takes care of it, for the record"`
}

func (s *alerts) registerAcknowledge(api huma.API) {
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "acknowledge-alert", Method: http.MethodPost, Path: acknowledgePath, Summary: "Acknowledge an open alert", Tags: []string{"alerts"},
		Description: "Records that somebody takes care of the alert. The alert stays open until its cause is gone, and lists show it after the others. The acknowledgement is durable when " +
			"the call is answered; other nodes follow within moments. It is forgotten some time after the alert is over. A namespace remembers 1,000 acknowledgements, and forgets " +
			"the oldest for one more. For an alert that is not open the answer is 409.",
	}), s.acknowledge)
	optionalBody[AcknowledgeBody](api, acknowledgePath, map[string]any{"note": "the bank looks into it", "by": "anna"})
}

func (s *alerts) acknowledge(ctx context.Context, in *AlertPath) (*AcknowledgedAnswer, error) {
	x := exchangeOf(ctx)
	var body AcknowledgeBody
	if err := x.readTexts("an acknowledgement", "The alert is not acknowledged.", map[string]memberText{
		"note": {&body.Note, maxReason}, "reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID},
	}); err != nil {
		return nil, err
	}
	a, err := s.one(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	changed, err := s.alerts.Acknowledge(ctx, events.AlertAcknowledgement{Alert: a.ID, Note: cmp.Or(body.Note, body.Reason), By: x.by(body.By)})
	switch {
	case errors.Is(err, ErrNoAnswer):
		return nil, repeatProblem()
	case err != nil:
		return nil, s.log.internal(ctx, "acknowledge an alert", err)
	}
	if seen := s.alerts.Acknowledged()[a.ID]; seen != (Acknowledgement{}) {
		a.Acknowledged = &seen
	}
	return &AcknowledgedAnswer{AcknowledgedAlert{Alert: a, Changed: changed}}, nil
}

// one returns an open alert, or a problem if it is not open.
func (s *alerts) one(ctx context.Context, id string) (Alert, error) {
	if _, _, ok := AlertSubject(id); !ok {
		return Alert{}, problem(http.StatusUnprocessableEntity, codeInvalid, fmt.Sprintf("%q is not the ID of an alert that can be open, such as %s:order-4@mx39y9re. GET /v1/alerts (`sagalog alert list`) lists those that are open, with their IDs.", events.Clip(id, maxReason), OpenKinds[0]))
	}
	found, err := s.find(ctx, id, nil)
	if err != nil {
		return Alert{}, err
	}
	for _, a := range found.Alerts {
		if a.ID == id {
			return a, nil
		}
	}
	if len(found.Missing) > 0 {
		var missing []int32
		for _, m := range found.Missing {
			missing = append(missing, m.Partition)
		}
		return Alert{}, takeoverProblem(missing...)
	}
	return Alert{}, problem(http.StatusConflict, codeRefused, fmt.Sprintf("The alert %s is not open: its cause is gone, or has changed since. GET /v1/alerts (`sagalog alert list`) lists the open alerts.", id))
}
