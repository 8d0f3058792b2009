package cli

import (
	"cmp"
	"strconv"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func nodesCommand() *cobra.Command {
	g := group("nodes", "Look at nodes", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List nodes: whether they are alive, what they own, and what is free on their disks", Args: cobra.NoArgs,
		Long: "List the nodes whose heartbeats were seen in the last minute. A node that was killed is listed as silent for that minute; one\n" +
			"that was stopped is not listed. `sagalog partitions takeovers PARTITION` shows from which node a partition came. CLOCK is how far the node's clock is\n" +
			"ahead of that of the node that answers.",
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/nodes", "nodes", listing{none: "no heartbeat of a node was seen in the last minute", head: row{"NODE", "STATE", "PARTITIONS", "STARTED", "LAST SEEN", "CLOCK", "STORE", "DISK FREE"}, cells: rowOf(nodeRow)})
		}),
	}))
	g.Aliases = []string{"node"}
	return g
}

func nodeRow(d api.NodeDocument) row {
	r := row{d.Node, "alive", strconv.Itoa(len(d.Partitions)), cmp.Or(instant(d.StartedAt), "-"), cmp.Or(instant(d.LastSeen), "-"), "-", mebibytes(d.StateBytes), mebibytes(d.FreeBytes)}
	if d.Silent {
		r[1] = "silent"
	}
	if d.ClockAhead != nil {
		r[5] = d.ClockAhead.String()
	}
	return r
}

// mebibytes is a size, "-" if it is not known.
func mebibytes(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n>>20, 10) + " MiB"
}
