package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// checkpointWait is how long a checkpoint may take: the first one of a process reads all tables, some gigabytes for ten million tasks.
const checkpointWait = 30 * time.Minute

// CheckpointCommand returns the command that asks a running node for a checkpoint. If --data is given, offline makes one of a stopped node.
func CheckpointCommand(offline func(ctx context.Context, data, to string) (api.CheckpointDocument, error)) *cobra.Command {
	c := output(&cobra.Command{
		Use: "checkpoint", Short: "Copy the state of a running or stopped node", Args: cobra.NoArgs,
		Long: `Make a checkpoint: a copy of the state of one node as of now. Tables are hard links where the file system allows it, so it is
quick and takes little room at first. The node works on meanwhile. What ends up in the directory is whole and durable, or
nothing is there. ` + "`sagalog state restore`" + ` makes a data directory of it, and a node without a state begins with the newest in its
directory of checkpoints.

The running node at --api makes it directly in its directory of checkpoints (` + "`sagalog serve --checkpoints`" + `, by default in its
data directory): --to is a name, or a path in there. With --data, the node is stopped and --to may be anywhere.`,
		Example: `  sagalog state checkpoint --to before-upgrade
  sagalog state checkpoint --data /var/lib/sagalog --to /backup/sagalog-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := cmd.Flags().GetString("data")
			if err != nil || data == "" {
				return client(func(s *session, _ []string) error { return makeCheckpoint(s) })(cmd, args)
			}
			p, err := printerOf(cmd)
			if err != nil {
				return err
			}
			to := cmd.Flag("to").Value.String()
			if to == "" {
				return Usage("--to is missing: the directory of the checkpoint of %s", data)
			}
			made, err := offline(cmd.Context(), data, to)
			if err != nil {
				return err
			}
			doc, err := json.Marshal(made)
			if err != nil {
				return err
			}
			return p.one(doc, func(w io.Writer) error { return showCheckpoint(w, doc) })
		},
	})
	apiFlags(c.Flags())
	c.Flags().String("to", "", "name or path of the checkpoint, which must not exist (default for a running node: a name by the time)")
	c.Flags().String("data", "", "data directory of a stopped node, instead of a running one")
	return c
}

func makeCheckpoint(s *session) error {
	body, err := json.Marshal(api.CheckpointBody{To: s.flag("to")})
	if err != nil {
		return err
	}
	_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPost, path: "/v1/checkpoints", body: body, content: "application/json", wait: checkpointWait})
	if err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error { return showCheckpoint(w, doc) })
}

func showCheckpoint(out io.Writer, doc json.RawMessage) error {
	var d api.CheckpointDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	on := ""
	if d.Node != "" {
		on = " of node " + d.Node
	}
	if _, err := fmt.Fprintf(out, "checkpoint%s: %s\n%d files, %d bytes, as of %s\n\n", on, d.Path, d.Files, d.Bytes, instant(d.Time)); err != nil {
		return err
	}
	if d.KeysMissing {
		if _, err := fmt.Fprintf(out, "It holds no keys, although namespace %s encrypts: the topic of keys is gone or empty, or the node may not read it. Nothing encrypted can be opened from it without\n"+
			"the keys of another checkpoint, or the topic. Make one on a node that may read the topic.\n\n", d.Namespace); err != nil {
			return err
		}
	}
	var rows []row
	for _, p := range d.Partitions {
		rows = append(rows, row{strconv.Itoa(int(p.Partition)), strconv.FormatInt(p.Offset, 10), p.Hash})
	}
	return table(out, row{"PARTITION", "OFFSET", "HASH"}, rows)
}
