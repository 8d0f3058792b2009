package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

const nodesPath = "/v1/nodes"

func nodesCommand() *cobra.Command {
	g := group("nodes", "Look at nodes", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List nodes: whether they are alive, what they own, and what is free on their disks", Args: cobra.NoArgs,
		Long: "List the nodes whose heartbeats were seen in the last minute. A node that was killed is listed as silent for that minute; one\n" +
			"that was stopped is not listed. A partition that has stopped at a node is named with the reason: nothing is decided in it. `sagalog partitions takeovers PARTITION` shows from which node a partition came. CLOCK is how far the node's clock is\n" +
			"ahead of that of the node that answers.",
		RunE: client(func(s *session, _ []string) error {
			doc, err := s.get(s.cmd.Context(), nodesPath, nil)
			if err != nil {
				return err
			}
			noteStoppedIn(s, doc)
			return listIn(s, doc, "nodes", listing{none: "no heartbeat of a node was seen in the last minute", head: row{"NODE", "STATE", "PARTITIONS", "STARTED", "LAST SEEN", "CLOCK", "STORE", "DISK FREE"}, cells: rowOf(nodeRow)})
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
	for _, x := range d.Stopped {
		r[1] += fmt.Sprintf("; partition %d has stopped (%s)", x.Partition, Printable(x.Reason))
	}
	if d.ClockAhead != nil {
		r[5] = d.ClockAhead.String()
	}
	return r
}

// besideWithin bounds a call that only adds to what a command was asked.
const besideWithin = 3 * time.Second

// noteStopped says on standard error which partitions have stopped, where and why, and returns the nodes. Without an answer it says nothing: the
// command has its own question, which fails too.
func noteStopped(s *session) []api.NodeDocument {
	ctx, cancel := context.WithTimeout(s.cmd.Context(), besideWithin)
	defer cancel()
	doc, err := s.get(ctx, nodesPath, nil)
	if err != nil {
		return nil
	}
	return noteStoppedIn(s, doc)
}

// noteStoppedIn says it of the answer to that question.
func noteStoppedIn(s *session, doc json.RawMessage) []api.NodeDocument {
	var of struct{ Nodes []api.NodeDocument }
	if err := decode(doc, &of); err != nil {
		return nil
	}
	for _, n := range of.Nodes {
		for _, x := range n.Stopped {
			s.note("partition %d has stopped at node %s (%s): %s", x.Partition, Printable(n.Node), Printable(x.Reason), Printable(strings.Join(strings.Fields(x.Detail), " ")))
		}
	}
	return of.Nodes
}

// silence says in parentheses that a node sends no heartbeats, "" if it does. A node is listed for a minute after its last one; if none is listed, nothing is known.
func silence(node string, nodes []api.NodeDocument) string {
	i := slices.IndexFunc(nodes, func(n api.NodeDocument) bool { return n.Node == node })
	switch {
	case node == "" || len(nodes) == 0:
		return ""
	case i < 0:
		return " (no heartbeat)"
	case nodes[i].Silent:
		return " (silent since " + instant(nodes[i].LastSeen) + ")"
	}
	return ""
}

// mebibytes is a size, "-" if it is not known.
func mebibytes(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n>>20, 10) + " MiB"
}
