package api

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

// status answers for the cluster: its agents, its partitions, and this node.
type status struct {
	cfg   *Config
	proxy *proxy.Proxy
	log   logger
}

// partitionsWithin is shorter than listWithin: an operator looks at the partitions when something is wrong, and must
// quickly see which node is silent.
const partitionsWithin = 2 * time.Second

// AgentDocument is what one instance reports about one agent that it runs.
type AgentDocument struct {
	Agent       string         `json:"agent"`
	Instance    string         `json:"instance"`
	Node        string         `json:"node,omitempty"`
	Operations  []string       `json:"operations" nullable:"false"`
	Capacity    int            `json:"capacity"`
	InFlight    int            `json:"in_flight"`
	MissingKeys []string       `json:"missing_keys,omitempty" doc:"The keys that sealed requests needed in the last minute and the instance lacks: IDs of keys of the key file, or * if it can open nothing"`
	Health      string         `json:"health,omitempty" enum:"healthy,degraded,unhealthy,silent" doc:"Silent: no heartbeat comes from it now, so no work is sent to it"`
	Partitions  []int32        `json:"partitions" nullable:"false" doc:"Those of the agent's work topic that it reads"`
	StartedAt   events.Instant `json:"started_at,omitzero" format:"date-time"`
	LastSeen    events.Instant `json:"last_seen,omitzero" format:"date-time"`
}

// HealthSilent is the health of an instance whose heartbeats have stopped; the others are in package events.
const HealthSilent = "silent"

// AgentsAnswer lists agents.
type AgentsAnswer struct {
	Body struct {
		Agents  []AgentDocument  `json:"agents" nullable:"false"`
		Paused  []PausedAgent    `json:"paused,omitempty" doc:"The agents at which nothing starts, because an operator paused them"`
		Missing []events.Missing `json:"missing,omitempty" doc:"The operations that steps wait for and no live instance offers, or, with behind, that the brokers take no requests for"`
	}
}

// PartitionDocument is the state of a partition. If no node answers for it, only partition and end_offset are present.
type PartitionDocument struct {
	Partition     int32            `json:"partition"`
	Owner         string           `json:"owner,omitempty" doc:"Absent, like all below but end_offset and begins, while the partition is taken over or its owner does not answer"`
	Epoch         string           `json:"epoch,omitempty"`
	Since         events.Instant   `json:"since,omitzero" format:"date-time"`
	Stopped       *StoppedAt       `json:"stopped,omitempty" doc:"The node that cannot go on with the partition, and why; present even without an owner"`
	TakenOver     *TakeOver        `json:"taken_over,omitempty" doc:"The take-over by which the owner got it, since the owner started"`
	AppliedOffset *int64           `json:"applied_offset,omitempty" doc:"The next offset to fold"`
	EndOffset     *int64           `json:"end_offset,omitempty" doc:"Absent if the brokers did not answer"`
	Begins        *PartitionBegins `json:"begins,omitempty" doc:"The offsets of the first records that the log and the inputs still hold: those before were deleted because nobody needs them any more. Absent if the brokers did not answer"`
	StateHash     string           `json:"state_hash,omitempty"`
	Live          *int64           `json:"live,omitempty" doc:"Tasks that have not ended"`
	Due           *int64           `json:"due,omitempty" doc:"Timers that are due and not fired"`
	Outbox        []OutboxClass    `json:"outbox,omitempty" doc:"What the owner has decided and no broker has acknowledged, as of the last second; absent if there is nothing"`
}

// StoppedAt says where and why a partition has stopped.
type StoppedAt struct {
	Node   string `json:"node"`
	Reason string `json:"reason" enum:"input_lost,log,state,level,closed,other"`
	Detail string `json:"detail,omitempty" doc:"The error that stopped it"`
}

func partitionDocument(p *Partition) PartitionDocument {
	d := PartitionDocument{Partition: p.Partition, Begins: p.Begins, Stopped: p.Stopped}
	if p.EndOffset >= 0 {
		d.EndOffset = &p.EndOffset
	}
	if p.Known {
		d.Owner, d.Epoch, d.Since, d.StateHash = p.Owner, p.Epoch.String(), p.Since, p.StateHash.String()
		d.TakenOver = p.TakenOver
		d.AppliedOffset, d.Live, d.Due, d.Outbox = &p.AppliedOffset, &p.Live, &p.Due, p.Outbox
	}
	return d
}

// PartitionsAnswer lists partitions.
type PartitionsAnswer struct {
	Body []PartitionDocument `nullable:"false"`
}

// InfoAnswer describes this node.
type InfoAnswer struct {
	Body struct {
		Version    string `json:"version,omitempty"`
		Namespace  string `json:"namespace"`
		Node       string `json:"node,omitempty"`
		Partitions int32  `json:"partitions"`
		Demo       bool   `json:"demo" doc:"Whether the example runs, which can be made to fail"`

		Past events.Instant `json:"past,omitzero" format:"date-time" doc:"The moment that is shown, if this is a copy of the past: it can only be read"`
	}
}

// HealthAnswer says that the process is alive.
type HealthAnswer struct {
	Body struct {
		Status string `json:"status"`
	}
}

// ReadyAnswer says that the partitions owned here have caught up.
type ReadyAnswer struct {
	Body struct {
		Status  string   `json:"status"`
		Delayed []string `json:"delayed,omitempty" doc:"Effects that brokers do not take; everything else goes on without them"`
	}
}

func (s *status) register(api huma.API) {
	tags := []string{"engine"}
	op := func(id, path, text string) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: text, Tags: tags})
	}
	huma.Register(api, op("list-agents", "/v1/agents", "List instances of agents"), s.listAgents)
	partitions := op("list-partitions", "/v1/partitions", "List partitions")
	partitions.Description = "Each partition as its owner knows it. A partition for which no node answers has no owner and no epoch."
	huma.Register(api, partitions, s.listPartitions)
	s.registerTakeOvers(api, tags)
	huma.Register(api, op("info", "/v1/info", "What runs here"), s.info)
	huma.Register(api, op("healthz", "/healthz", "Whether the process is alive"), func(context.Context, *struct{}) (*HealthAnswer, error) {
		return healthy(), nil
	})
	huma.Register(api, op("readyz", "/readyz", "Whether the owned partitions have caught up"), func(context.Context, *struct{}) (*ReadyAnswer, error) {
		if err := s.cfg.Ready(); err != nil {
			return nil, problem(http.StatusServiceUnavailable, codeNotReady, err.Error())
		}
		a := &ReadyAnswer{}
		a.Body.Status, a.Body.Delayed = healthy().Body.Status, s.cfg.Delayed()
		return a, nil
	})
}

func healthy() *HealthAnswer {
	a := &HealthAnswer{}
	a.Body.Status = "ok"
	return a
}

func (s *status) listAgents(ctx context.Context, _ *struct{}) (*AgentsAnswer, error) {
	beats, err := s.cfg.Cluster.Agents(ctx)
	if err != nil {
		return nil, s.log.internal(ctx, "list agents", err)
	}
	list := []AgentDocument{}
	for _, p := range beats {
		for _, agent := range p.Agents {
			d := AgentDocument{
				Agent: agent, Instance: p.Instance, Node: p.Node, Operations: []string{}, Partitions: []int32{},
				Capacity: p.Capacity[agent], InFlight: p.InFlight[agent], Health: p.Health[agent], MissingKeys: p.MissingKeys[agent],
				StartedAt: p.StartedAt, LastSeen: p.SeenAt,
			}
			for _, o := range p.Operations[agent] {
				d.Operations = append(d.Operations, string(o))
			}
			for _, name := range slices.Sorted(maps.Keys(p.Functions[agent])) {
				for _, o := range p.Functions[agent][name] {
					d.Operations = append(d.Operations, events.Call{Function: name, Operation: o}.Verb())
				}
			}
			d.Partitions = append(d.Partitions, p.Partitions[agent]...)
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b AgentDocument) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Instance, b.Instance))
	})
	out := &AgentsAnswer{}
	out.Body.Agents, out.Body.Missing = list, s.cfg.Offers.Missing()
	out.Body.Paused = slices.SortedFunc(maps.Values(s.cfg.Pauses.Paused()), func(a, b PausedAgent) int { return strings.Compare(a.Agent, b.Agent) })
	return out, nil
}

func (s *status) listPartitions(ctx context.Context, _ *struct{}) (*PartitionsAnswer, error) {
	list, err := s.cfg.Cluster.Partitions(ctx)
	if err != nil {
		return nil, s.log.internal(ctx, "list partitions", err)
	}
	asked, ok := s.proxy.Asked(exchangeOf(ctx).r)
	if !ok {
		return nil, parameterProblem(proxy.HeaderPartitions, "is not a list of partitions")
	}
	out := &PartitionsAnswer{Body: make([]PartitionDocument, 0, len(list))}
	for i := range list {
		if asked == nil || slices.Contains(asked, list[i].Partition) {
			out.Body = append(out.Body, partitionDocument(&list[i]))
		}
	}
	if asked == nil {
		s.askOthers(ctx, out.Body)
	}
	return out, nil
}

// askOthers fills in what other nodes know. A partition for which no node answers stays unknown.
func (s *status) askOthers(ctx context.Context, list []PartitionDocument) {
	ctx, cancel := context.WithTimeout(ctx, partitionsWithin)
	defer cancel()
	s.proxy.AskEach(ctx, s.proxy.Locate().There, proxy.Question{Path: "/v1/partitions"}, func(partitions []int32, answer []byte, err error) error {
		var theirs []PartitionDocument
		if err != nil {
			return nil // the proxy has counted and logged it
		}
		if err := json.Unmarshal(answer, &theirs); err != nil {
			return err
		}
		for _, d := range theirs {
			if i := slices.IndexFunc(list, func(l PartitionDocument) bool { return l.Partition == d.Partition }); i >= 0 && d.AppliedOffset != nil && slices.Contains(partitions, d.Partition) {
				d.Stopped = cmp.Or(list[i].Stopped, d.Stopped)
				list[i] = d
			}
		}
		return nil
	})
}

func (s *status) info(context.Context, *struct{}) (*InfoAnswer, error) {
	a := &InfoAnswer{}
	a.Body.Version, a.Body.Namespace, a.Body.Node = s.cfg.Version, s.cfg.Namespace, s.cfg.Node
	a.Body.Partitions, a.Body.Demo, a.Body.Past = s.cfg.Partitions, s.cfg.Demo != nil, s.cfg.Past
	return a, nil
}
