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
	// defaultBreak is long enough to be seen failing and short enough to be seen recovering.
	defaultBreak = 20 * time.Second
	// maxBreak keeps a forgotten breakage from looking like a defect of ours a day later.
	maxBreak = time.Hour
)

// BreakageDocument is how a service of the example fails.
type BreakageDocument struct {
	Service string `json:"service"`
	Mode    string `json:"mode" enum:"slow,fail,hang,refuse"`
	For     string `json:"for" example:"20s"`
}

// BreakAnswer repeats what is broken now.
type BreakAnswer struct{ Body BreakageDocument }

// MendQuery names a service.
type MendQuery struct {
	Service string `query:"service" doc:"Absent: all"`
}

func (s *Server) registerDemo(api huma.API) {
	tags := []string{"demo"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "break-service", Method: http.MethodPut, Path: demoPath, Summary: "Have a service of the example fail", Tags: tags,
	}), s.breakService)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "mend-service", Method: http.MethodDelete, Path: demoPath, Summary: "Mend a service of the example", Tags: tags,
	}), s.mendService)
	describeBody(api, demoPath, http.MethodPut, described{reflect.TypeFor[BreakageDocument](), map[string]any{"service": "drone", "mode": "fail", "for": "20s"}}, contentJSON)
}

func (s *Server) breakService(ctx context.Context, _ *struct{}) (*BreakAnswer, error) {
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
	if !slices.Contains(s.cfg.Demo.Services(), d.Service) {
		faults = append(faults, ProblemPlace{Pointer: "/service", Message: "is not a service; " + events.Suggest(d.Service, s.cfg.Demo.Services())})
	}
	if !slices.Contains(BreakModes, d.Mode) {
		faults = append(faults, ProblemPlace{Pointer: "/mode", Message: "is not a mode; " + events.Suggest(d.Mode, BreakModes)})
	}
	span, err := events.ParseDuration(d.For)
	if err != nil || span <= 0 || span.Std() > maxBreak {
		faults = append(faults, ProblemPlace{Pointer: "/for", Message: fmt.Sprintf("is not a duration such as 20s, up to %s", events.Duration(maxBreak))})
	}
	if len(faults) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The service cannot be broken like that.", faults...)
	}
	if err := s.cfg.Demo.Break(ctx, Breakage{Service: d.Service, Mode: d.Mode, For: span.Std()}); err != nil {
		return nil, s.internal(ctx, "break a service", err)
	}
	return &BreakAnswer{Body: d}, nil
}

func (s *Server) mendService(ctx context.Context, in *MendQuery) (*struct{}, error) {
	if in.Service != "" && !slices.Contains(s.cfg.Demo.Services(), in.Service) {
		return nil, parameterProblem("service", "is not a service; "+events.Suggest(in.Service, s.cfg.Demo.Services()))
	}
	if err := s.cfg.Demo.Mend(ctx, in.Service); err != nil {
		return nil, s.internal(ctx, "mend a service", err)
	}
	return nil, nil
}
