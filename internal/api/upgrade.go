package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	upgradePath = settingsPath + "/upgrade"
	// maxLevel is far above any level.
	maxLevel = 1000
)

// UpgradeBody asks for a level.
type UpgradeBody struct {
	To int    `json:"to,omitempty" minimum:"1" maximum:"1000" doc:"The level; absent: the highest that every live node understands"`
	By string `json:"by,omitempty" doc:"Who raises it, for the record"`
}

func (s *settings) registerUpgrade(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "upgrade-namespace", Method: http.MethodPost, Path: upgradePath, Summary: "Raise the level of the namespace", Tags: []string{"namespace"},
		Description: "The level says which version of the format owners may write, and which keys definitions may use. It never falls: a node that " +
			"understands less owns no partition afterwards. 409 names a live node that understands less than the requested level.",
	}), s.upgrade)
	example := map[string]any{"by": "anna"}
	describeBody(api, upgradePath, http.MethodPost, described{reflect.TypeFor[UpgradeBody](), example, settingsBytes}, contentJSON)
	api.OpenAPI().Paths[upgradePath].Post.RequestBody.Required = false
}

func (s *settings) upgrade(ctx context.Context, _ *struct{}) (*SettingsAnswer, error) {
	x := exchangeOf(ctx)
	body, err := x.readUpgrade()
	if err != nil {
		return nil, err
	}
	body.By = x.by(body.By)
	now, changed, err := s.settings.Upgrade(ctx, body.To, body.By)
	var refused *UpgradeRefusedError
	switch {
	case errors.As(err, &refused):
		return nil, problem(http.StatusConflict, codePrecondition, refused.Error())
	case err != nil:
		return nil, s.failed(ctx, "raise the level", err,
			"The Kafka brokers do not answer at the moment, or this node has not heard the others for long enough. Ask again: repeating the request is safe.")
	}
	d := s.document(now)
	d.Changed = changed
	return &SettingsAnswer{Body: d}, nil
}

// readUpgrade reads the body {"to","by"}, which is optional.
func (x exchange) readUpgrade() (body UpgradeBody, err error) {
	data, err := x.readBody(settingsBytes, "an upgrade")
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return body, err
	}
	if err := x.acceptsJSON(); err != nil {
		return body, err
	}
	var faults []ProblemPlace
	err = x.readMembers(data, []string{"to", "by"}, func(name string, raw json.RawMessage) {
		switch {
		case name == "to" && (json.Unmarshal(raw, &body.To) != nil || body.To < events.FirstLevel || body.To > maxLevel):
			faults = append(faults, ProblemPlace{Pointer: "/to", Message: "is not a level, such as 2"})
		case name == "by" && (json.Unmarshal(raw, &body.By) != nil || len(body.By) > events.MaxTaskID):
			faults = append(faults, ProblemPlace{Pointer: "/by", Message: "is not a text of at most 255 bytes"})
		}
	})
	if err == nil && len(faults) > 0 {
		err = problem(http.StatusUnprocessableEntity, codeInvalid, "The level cannot be raised like this; nothing is changed.", faults...)
	}
	return body, err
}
