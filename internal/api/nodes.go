package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const nodesPath = "/v1/nodes"

// Nodes knows the nodes of the cluster.
type Nodes interface {
	// Nodes returns the nodes that were seen lately, by name. Only the document of this node has what only it knows.
	Nodes() []NodeDocument
}

// NodeDocument is a node as others see it, with what it says about itself.
type NodeDocument struct {
	Node       string  `json:"node"`
	Silent     bool    `json:"silent,omitzero" doc:"No heartbeat comes from it now"`
	Level      int     `json:"level,omitzero" doc:"The highest level of a namespace that it understands"`
	Partitions []int32 `json:"partitions" nullable:"false" doc:"Those that it owns, by its last heartbeat"`
	// Stopped is what the node says about partitions that it cannot go on with.
	Stopped    []events.StoppedPartition `json:"stopped,omitempty" doc:"Those that it should own and cannot go on with, each with the reason: input_lost (an input lost records), log (the log of the partition lost records or cannot be folded), state (the state that the node stores cannot be used), level (the namespace needs a newer build), closed (the namespace was copied) or other"`
	StartedAt  events.Instant            `json:"started_at,omitzero" format:"date-time"`
	LastSeen   events.Instant            `json:"last_seen,omitzero" format:"date-time" doc:"The time of its last heartbeat, by its clock"`
	ClockAhead *events.Duration          `json:"clock_ahead,omitempty" doc:"How far its clock is ahead of that of the node that answers, less the time that a heartbeat took. Absent for that node"`
	// The members below are those that only the node itself knows.
	BrokerAhead *events.Duration `json:"broker_ahead,omitempty" doc:"How far the clock of the broker that leads the topic presence is ahead of the node's. Absent, like all below, if the node does not answer"`
	StateBytes  *int64           `json:"state_bytes,omitempty" doc:"What its store takes on its disk"`
	FreeBytes   *int64           `json:"free_bytes,omitempty" doc:"What is free on that disk"`
}

// OutboxClass is the effects of one kind that no broker has acknowledged.
type OutboxClass struct {
	Class   string          `json:"class" example:"work" doc:"What they are: requests to agents (work), replies, alerts, dead_letter, and so on"`
	Records int             `json:"records"`
	Bytes   int             `json:"bytes"`
	Age     events.Duration `json:"age,omitzero" doc:"How long ago the oldest was decided"`
}

// NodesAnswer lists nodes.
type NodesAnswer struct {
	Body struct {
		Nodes []NodeDocument `json:"nodes" nullable:"false"`
	}
}

type nodes struct {
	nodes Nodes
	stats Stats
	node  string
	proxy *proxy.Proxy
}

func (s *nodes) register(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: nodesPath, Summary: "List the nodes", Tags: []string{"engine"},
		Description: "The nodes whose heartbeats were seen in the last minute, with their clocks and their disks.",
	}), s.list)
}

func (s *nodes) list(ctx context.Context, _ *struct{}) (*NodesAnswer, error) {
	out := &NodesAnswer{}
	out.Body.Nodes = s.nodes.Nodes()
	if exchangeOf(ctx).r.Header.Get(proxy.HeaderForwarded) != "" {
		out.Body.Nodes = slices.DeleteFunc(out.Body.Nodes, func(d NodeDocument) bool { return d.Node != s.node })
		return out, nil
	}
	s.askOthers(ctx, out.Body.Nodes)
	return out, nil
}

// askOthers fills in what the other nodes know about themselves.
func (s *nodes) askOthers(ctx context.Context, list []NodeDocument) {
	there := map[proxy.Route][]int32{}
	for _, to := range s.stats.Others() {
		there[to] = []int32{0} // a question needs some
	}
	if len(there) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partitionsWithin)
	defer cancel()
	s.proxy.AskEach(ctx, there, proxy.Question{Path: nodesPath}, func(_ []int32, answer []byte, err error) error {
		var theirs NodesAnswer
		if err != nil {
			return nil // the proxy has counted and logged it
		}
		if err := json.Unmarshal(answer, &theirs.Body); err != nil {
			return err
		}
		for _, d := range theirs.Body.Nodes {
			if i := slices.IndexFunc(list, func(l NodeDocument) bool { return l.Node == d.Node }); i >= 0 {
				list[i].BrokerAhead, list[i].StateBytes, list[i].FreeBytes = d.BrokerAhead, d.StateBytes, d.FreeBytes
			}
		}
		return nil
	})
}
