package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const takeOversPath = "/v1/partitions/{partition}/takeovers"

// TakeOversKept is how many take-overs of a partition a node keeps: months of restarts, and a morning of a cluster that does not come to rest.
const TakeOversKept = 50

// PastTakeOver is a change of a partition's owner.
type PastTakeOver struct {
	Owner string           `json:"owner" doc:"Who took the partition over"`
	From  string           `json:"from"`
	Epoch string           `json:"epoch"`
	At    events.Instant   `json:"at" format:"date-time" doc:"When the claim was made"`
	Cause string           `json:"cause,omitempty" enum:"stopped,silent,fault" doc:"stopped: the earlier owner gave the partition up; silent: its heartbeats ended; fault: it said that it cannot own the partition. Absent if the node that answers did not hear the heartbeats then"`
	Gap   *events.Duration `json:"gap,omitempty" doc:"For how long nobody owned it, from the last sign of the earlier owner. Absent if the cause is absent. If the earlier owner lived, only the new owner knows it"`
	Void  *uint64          `json:"void,omitempty" doc:"Void records: those that earlier owners wrote around this take-over and until the next one, and that every reader skips. Absent if the node that answers was restarted meanwhile"`
}

// TakeOversDocument lists take-overs, the latest first.
type TakeOversDocument struct {
	Partition int32          `json:"partition"`
	Node      string         `json:"node,omitempty" doc:"The node that answers: the list is what this node knows"`
	TakeOvers []PastTakeOver `json:"takeovers" nullable:"false"`
}

// TakeOversAnswer lists take-overs.
type TakeOversAnswer struct{ Body TakeOversDocument }

type takeOversParameters struct {
	// Partition is read as an int64: the framework would make a small number of one that is too large for an int32.
	Partition int64 `path:"partition" minimum:"0"`
}

func (s *status) registerTakeOvers(api huma.API, tags []string) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-takeovers", Method: http.MethodGet, Path: takeOversPath, Summary: "List the take-overs of a partition", Tags: tags,
		Description: fmt.Sprintf("The last %d take-overs, the latest first, as the node that answers has read them in the log. It keeps them across restarts. ", TakeOversKept) +
			"Take-overs before its first start have no cause and no gap, and are known only if it has folded the log from its beginning. " +
			"A node that claims its own partition again, as after a restart, is no take-over.",
	}), s.takeOvers)
}

func (s *status) takeOvers(_ context.Context, in *takeOversParameters) (*TakeOversAnswer, error) {
	if in.Partition >= int64(s.cfg.Partitions) {
		return nil, problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("The namespace has the partitions 0 to %d.", s.cfg.Partitions-1))
	}
	partition := int32(in.Partition)
	list := s.cfg.Cluster.TakeOvers(partition)
	return &TakeOversAnswer{TakeOversDocument{Partition: partition, Node: s.cfg.Node, TakeOvers: append([]PastTakeOver{}, list...)}}, nil
}
