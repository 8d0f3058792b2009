package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	actsPath = "/v1/acts"
	// MaxActs bounds the acts that a node keeps of each kind, and those of an answer: what a handful of operators do in a bad day. What a job
	// asks of its tasks is one act.
	MaxActs = 500
	// actsWithin is how long other nodes may take for their part.
	actsWithin = 3 * time.Second
)

// The results of an act.
const (
	ActGranted = "granted"
	ActRefused = "refused"
)

// Acts knows what operators did lately.
type Acts interface {
	// Decided returns what this node decided about requests of operators, at most MaxActs, and since when it knows.
	Decided() ([]Act, events.Instant)
	// Defined returns what operators wrote into the definitions, which each node reads, at most MaxActs.
	Defined() []Act
}

// Act is what an operator did.
type Act struct {
	At      events.Instant `json:"at" format:"date-time"`
	By      string         `json:"by,omitempty" doc:"The name of the token or, while access is off, who the request said it is"`
	Verb    string         `json:"verb" example:"retry"`
	Kind    string         `json:"kind" enum:"task,schedule,limit,agent,alert,dead_letter,job,settings,loss" doc:"What it was done to"`
	Subject string         `json:"subject,omitempty" doc:"The ID of the task, job, alert or dead letter, or the name"`
	Detail  string         `json:"detail,omitempty" doc:"The steps of a task, the verb of a job, the names of settings"`
	Result  string         `json:"result" enum:"granted,refused"`
	Reason  string         `json:"reason,omitempty" doc:"What the operator gave as the reason or, if it was refused, why"`
	Request string         `json:"request,omitempty" doc:"The ID of the request"`
}

// ActsDocument lists acts, the latest first.
type ActsDocument struct {
	Acts    []Act          `json:"acts" nullable:"false"`
	Since   events.Instant `json:"since" format:"date-time" doc:"From this time on all nodes that answered know the acts about tasks, schedules and limits"`
	Partial bool           `json:"partial,omitzero" doc:"There are more acts, or a node did not answer"`
}

// ActsAnswer lists acts.
type ActsAnswer struct{ Body ActsDocument }

type acts struct {
	acts  Acts
	stats Stats
	proxy *proxy.Proxy
}

func (s *acts) register(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-acts", Method: http.MethodGet, Path: actsPath, Summary: "What operators did lately", Tags: []string{"engine"},
		Description: fmt.Sprintf("At most %d acts, the latest first: requests about tasks, schedules and limits with what became of them; pauses of agents; jobs; acknowledgements of alerts; marks of dead letters; "+
			"changes of settings; accepted losses. Requests of jobs and schedules and signals are left out. Each node keeps in memory what it decided, so acts that a node decided "+
			"before it was restarted are missing; the history of a task has all about the task.", MaxActs),
	}), s.list)
}

func (s *acts) list(ctx context.Context, _ *struct{}) (*ActsAnswer, error) {
	out := &ActsAnswer{}
	decided, since := s.acts.Decided()
	out.Body.Acts, out.Body.Since = append([]Act{}, decided...), since // never null
	if exchangeOf(ctx).r.Header.Get(proxy.HeaderForwarded) != "" {
		return out, nil
	}
	out.Body.Acts = append(out.Body.Acts, s.acts.Defined()...)
	s.askOthers(ctx, &out.Body)
	slices.SortStableFunc(out.Body.Acts, func(a, b Act) int {
		return cmp.Or(cmp.Compare(b.At, a.At), strings.Compare(a.Subject, b.Subject), strings.Compare(a.Request, b.Request))
	})
	if len(out.Body.Acts) > MaxActs {
		out.Body.Acts, out.Body.Partial = out.Body.Acts[:MaxActs], true
	}
	return out, nil
}

func (s *acts) askOthers(ctx context.Context, out *ActsDocument) {
	there := map[proxy.Route][]int32{}
	for _, to := range s.stats.Others() {
		there[to] = []int32{0} // a question needs some
	}
	if len(there) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, actsWithin)
	defer cancel()
	s.proxy.AskEach(ctx, there, proxy.Question{Path: actsPath}, func(_ []int32, answer []byte, err error) error {
		var theirs ActsDocument
		if err == nil {
			err = json.Unmarshal(answer, &theirs)
		}
		if err != nil {
			out.Partial = true
			return err
		}
		out.Acts = append(out.Acts, theirs.Acts...)
		out.Since = max(out.Since, theirs.Since)
		return nil
	})
}
