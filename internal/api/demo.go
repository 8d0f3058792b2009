package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	demoPath = "/v1/demo/break"
	// defaultBreak is long enough for people to see the service fail, and short enough for them to see
	// it recover.
	defaultBreak = 20 * time.Second
	// maxBreak keeps a forgotten breakage from looking like a defect of the engine a day later.
	maxBreak = time.Hour
)

// demo makes services of the example fail.
type demo struct {
	demo Demo
	log  logger
}

// BreakageDocument is how a service of the example fails.
type BreakageDocument struct {
	Service string `json:"service"`
	Mode    string `json:"mode" enum:"slow,fail,hang,refuse"`
	For     string `json:"for,omitempty" default:"20s" example:"20s"`
}

// BreakAnswer repeats the breakage.
type BreakAnswer struct{ Body BreakageDocument }

// FixQuery names a service.
type FixQuery struct {
	Service string `query:"service" doc:"Absent: all"`
}

func (s *demo) register(api huma.API) {
	tags := []string{"demo"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "break-service", Method: http.MethodPut, Path: demoPath, Summary: "Make a service of the example fail", Tags: tags,
	}), s.breakService)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "fix-service", Method: http.MethodDelete, Path: demoPath, Summary: "Fix a service of the example", Tags: tags,
	}), s.fixService)
	describeBody(api, demoPath, http.MethodPut, described{reflect.TypeFor[BreakageDocument](), map[string]any{"service": "drone", "mode": "fail", "for": "20s"}, requestBytes}, contentJSON)
}

func (s *demo) breakService(ctx context.Context, _ *struct{}) (*BreakAnswer, error) {
	x := exchangeOf(ctx)
	data, err := x.readBody(requestBytes, "a request")
	if err != nil {
		return nil, err
	}
	d := BreakageDocument{For: events.Duration(defaultBreak).String()}
	targets := map[string]*string{"service": &d.Service, "mode": &d.Mode, "for": &d.For}
	var faults []ProblemPlace
	err = x.readMembers(data, []string{"service", "mode", "for"}, func(name string, raw json.RawMessage) {
		if json.Unmarshal(raw, targets[name]) != nil {
			faults = append(faults, ProblemPlace{Pointer: "/" + name, Message: "is not a text"})
		}
	})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.demo.Services(), d.Service) {
		faults = append(faults, ProblemPlace{Pointer: "/service", Message: "is not a service; " + events.Suggest(d.Service, s.demo.Services())})
	}
	if !slices.Contains(BreakModes, d.Mode) {
		faults = append(faults, ProblemPlace{Pointer: "/mode", Message: "is not a mode; " + events.Suggest(d.Mode, BreakModes)})
	}
	span, err := events.ParseDuration(d.For)
	if err != nil || span <= 0 || span.Std() > maxBreak {
		faults = append(faults, ProblemPlace{Pointer: "/for", Message: fmt.Sprintf("is not a duration such as 20s, up to %s", events.Duration(maxBreak))})
	}
	if len(faults) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The service cannot be broken in that way.", faults...)
	}
	if err := s.demo.Break(ctx, Breakage{Service: d.Service, Mode: d.Mode, For: span.Std()}); err != nil {
		return nil, s.log.internal(ctx, "break a service", err)
	}
	return &BreakAnswer{Body: d}, nil
}

func (s *demo) fixService(ctx context.Context, in *FixQuery) (*struct{}, error) {
	if in.Service != "" && !slices.Contains(s.demo.Services(), in.Service) {
		return nil, parameterProblem("service", "is not a service; "+events.Suggest(in.Service, s.demo.Services()))
	}
	if err := s.demo.Fix(ctx, in.Service); err != nil {
		return nil, s.log.internal(ctx, "fix a service", err)
	}
	return nil, nil
}
