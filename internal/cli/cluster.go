package cli

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func agentsCommand() *cobra.Command {
	return group("agents", "Look at agents", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List instances of agents with their load and health", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/agents", "agents", row{"AGENT", "INSTANCE", "NODE", "OPERATIONS", "IN FLIGHT", "CAPACITY", "HEALTH", "LAST SEEN"},
				func(doc json.RawMessage) (row, error) {
					var a struct {
						Agent      string   `json:"agent"`
						Instance   string   `json:"instance"`
						Node       string   `json:"node"`
						Operations []string `json:"operations"`
						InFlight   int      `json:"in_flight"`
						Capacity   int      `json:"capacity"`
						Health     string   `json:"health"`
						LastSeen   string   `json:"last_seen"`
					}
					err := decode(doc, &a)
					return row{a.Agent, a.Instance, a.Node, strings.Join(a.Operations, ","), strconv.Itoa(a.InFlight), strconv.Itoa(a.Capacity), a.Health, a.LastSeen}, err
				})
		}),
	}))
}

func partitionsCommand() *cobra.Command {
	return group("partitions", "Look at partitions", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List partitions with their owners and lag", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/partitions", "", row{"PARTITION", "OWNER", "EPOCH", "SINCE", "APPLIED", "END", "LIVE", "DUE", "STATE HASH"},
				func(doc json.RawMessage) (row, error) {
					var p struct {
						Partition int    `json:"partition"`
						Owner     string `json:"owner"`
						Epoch     string `json:"epoch"`
						Since     string `json:"since"`
						Applied   *int64 `json:"applied_offset"`
						End       *int64 `json:"end_offset"`
						Hash      string `json:"state_hash"`
						Live      *int64 `json:"live"`
						Due       *int64 `json:"due"`
					}
					err := decode(doc, &p)
					n := func(v *int64) string { // absent while nobody owns the partition
						if v == nil {
							return "-"
						}
						return strconv.FormatInt(*v, 10)
					}
					return row{strconv.Itoa(p.Partition), p.Owner, p.Epoch, p.Since, n(p.Applied), n(p.End), n(p.Live), n(p.Due), p.Hash}, err
				})
		}),
	}))
}
