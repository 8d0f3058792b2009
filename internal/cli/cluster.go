package cli

import (
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func agentsCommand() *cobra.Command {
	return group("agents", "Look at agents", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List instances of agents with their load and health", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			if err := s.missingAgents(); err != nil {
				return err
			}
			return s.whole("/v1/agents", "agents", row{"AGENT", "INSTANCE", "NODE", "OPERATIONS", "IN FLIGHT", "CAPACITY", "HEALTH", "LAST SEEN"},
				rowOf(func(a api.AgentDocument) row {
					return row{a.Agent, a.Instance, a.Node, strings.Join(a.Operations, ","), strconv.Itoa(a.InFlight), strconv.Itoa(a.Capacity), a.Health, instant(a.LastSeen)}
				}))
		}),
	}))
}

// missingAgents lists on standard error the agents that steps wait for.
func (s *session) missingAgents() error {
	doc, err := s.get(s.cmd.Context(), "/v1/agents", nil)
	if err != nil {
		return err
	}
	var of struct{ Missing []events.Missing }
	if err := decode(doc, &of); err != nil {
		return err
	}
	for _, m := range of.Missing {
		why := "no live instance offers it"
		switch {
		case m.NoTopic != "":
			why = "it has no work topic: " + Printable(m.NoTopic)
		case m.Behind:
			why = "the brokers take no requests for it; look at the leaders and replicas of the agent's topic"
		}
		s.note("steps have been waiting for the operation %s of agent %s since %s: %s", m.Operation, Printable(m.Agent), instant(m.Since), why)
	}
	return nil
}

func partitionsCommand() *cobra.Command {
	return group("partitions", "Look at partitions", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List partitions with their owners and lag", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/partitions", "", row{"PARTITION", "OWNER", "EPOCH", "SINCE", "APPLIED", "END", "LIVE", "DUE", "STATE HASH"},
				rowOf(func(p api.PartitionDocument) row {
					n := func(v *int64) string { return number(v, "-") } // absent while nobody owns the partition
					return row{strconv.Itoa(int(p.Partition)), p.Owner, p.Epoch, instant(p.Since), n(p.AppliedOffset), n(p.EndOffset), n(p.Live), n(p.Due), p.StateHash}
				}))
		}),
	}))
}
