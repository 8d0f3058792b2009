package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/namespacecopy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// copyConfig holds the flags of namespace copy and reopen.
type copyConfig struct {
	logPlace
	output
	sealFlags
	to          connection
	toNamespace string
	checkpoints []string
	partitions  int32
	scratch     string
	quiet       bool
	discard     bool
}

func copyCommand() *cobra.Command {
	c := &copyConfig{}
	cmd := &cobra.Command{
		Use: "copy", Short: "Copy a stopped or lost namespace into a new one: another cluster, another number of partitions", Args: cobra.NoArgs,
		Long: `Copy a namespace into a new one: another cluster, another number of partitions, or a restore after the log was lost. Without
--from-checkpoint it is copied from its log, and all its nodes must be stopped, and the producers that write to its topics too. It is
closed first: nodes refuse to start in it, so that no task goes on in both. ` + "`sagalog namespace reopen`" + ` takes that back.

With --from-checkpoint it is copied from checkpoints (` + "`sagalog state checkpoint`" + `), for example because its log is gone. Give as many as
it takes to have every partition; of each, the latest state counts, and one must be of a running node, as it also holds the definitions.
What happened after a checkpoint is not known in the copy: tasks that were submitted later are missing, and steps that completed later
are done again, with the same idempotency keys.

All of this goes along: tasks, also those that have ended and are remembered, so that their IDs stay refused; workflows, schedules,
limits, settings; held requests; the keys of encrypted content, still encrypted; and from a log all inputs that nobody had judged. Attempts under way are asked for again, with the same
idempotency keys: the namespace keeps its ID. Jobs that have not ended begin again. Dead letters, alerts and the history of tasks stay
in the old namespace. Once the copy is complete, start nodes with an empty data directory and the same callback secret, then agents.

The new namespace exists once its last record is written. If the copy is interrupted, nothing runs in it: delete its topics and copy again.`,
		Example: `  sagalog namespace copy --brokers old:9092 --to-brokers new:9092 --partitions 24
  sagalog namespace copy --brokers k1:9092 --to-namespace sagalog2 --partitions 24
  sagalog namespace copy --data ./sagalog-data --to-brokers k1:9092
  sagalog namespace copy --from-checkpoint /backup/node-1 --from-checkpoint /backup/node-2 --to-brokers new:9092`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.copy(cmd) },
	}
	f := cmd.Flags()
	c.placeFlags(f)
	f.StringSliceVar(&c.checkpoints, "from-checkpoint", nil, "directory of a checkpoint to copy from, in place of the log; may be given several times")
	f.Int32Var(&c.partitions, "partitions", 0, "`number` of partitions of the new namespace (default as many as the old one)")
	f.StringVar(&c.toNamespace, "to-namespace", "", "prefix of the new topic names (default that of --namespace)")
	f.StringVar(&c.scratch, "scratch", "", "directory for the state while it is copied; must be empty, and is removed (default a temporary one)")
	f.BoolVar(&c.quiet, "quiet", false, "print no progress")
	f.StringVar(&c.sealKeyFile, "seal-key-file", "", "key file of the nodes, if the namespace encrypts: needed only while a step is being undone whose undo has a \"with\"")
	toFlags(f, &c.to)
	c.output.flags(f)
	return cmd
}

func reopenCommand() *cobra.Command {
	c := &copyConfig{}
	cmd := &cobra.Command{
		Use: "reopen", Short: "Take back that a namespace was closed, after its copy was given up", Args: cobra.NoArgs,
		Long: `Take back that a namespace was closed by ` + "`sagalog namespace copy`" + `, because the copy was given up. Its nodes can be started then.

Both namespaces must never run: each would do the steps of the same tasks, with the same idempotency keys, and neither would know
what the other did. So delete the topics of the copy first, and say that with --copy-discarded.`,
		Example: "  sagalog namespace reopen --brokers old:9092 --copy-discarded",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.reopen(cmd) },
	}
	f := cmd.Flags()
	c.placeFlags(f)
	f.StringVar(&c.scratch, "scratch", "", "directory for the state that is read; must be empty, and is removed (default a temporary one)")
	f.BoolVar(&c.quiet, "quiet", false, "print no progress")
	f.BoolVar(&c.discard, "copy-discarded", false, "the copy does not run and never will (required)")
	return cmd
}

// placeFlags are those of the old namespace.
func (c *copyConfig) placeFlags(f *pflag.FlagSet) {
	f.StringVar(&c.data, "data", "", "data directory of a stopped sagalog dev, whose log is in it; in place of --brokers")
	f.StringVar(&c.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	c.connection.flags(f)
	c.connection.role = acls.Copier
	cli.Alternatives(f, "brokers", "data")
}

// toFlags are the flags of the cluster of the new namespace: those of any cluster, with a prefix.
func toFlags(f *pflag.FlagSet, c *connection) {
	c.role = acls.Copier
	of := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.flags(of)
	of.VisitAll(func(x *pflag.Flag) {
		y := *x
		y.Name, y.Usage = "to-"+x.Name, "of the new cluster: "+x.Usage
		if x.Name == "brokers" {
			y.Usage = "HOST:PORT of some brokers of the cluster of the new namespace (default the one of --brokers, with its other flags)"
		}
		f.AddFlag(&y)
	})
}

// toError is an error of a connection whose flags have the prefix of toFlags.
type toError struct{ error }

var toNames = strings.NewReplacer("--brokers", "--to-brokers", "--tls", "--to-tls", "--sasl", "--to-sasl", "SAGALOG_SASL", "SAGALOG_TO_SASL")

func (e toError) Error() string { return toNames.Replace(e.error.Error()) }
func (e toError) Unwrap() error { return e.error }

func (c *copyConfig) validate() error {
	if err := errors.Join(c.output.validate(), refusePast(c.data)); err != nil {
		return err
	}
	if c.partitions < 0 || c.partitions > maxPartitions {
		return usage("--partitions %d is not from 1 to %d", c.partitions, maxPartitions)
	}
	if len(c.checkpoints) > 0 {
		if c.data != "" || len(c.brokers) > 0 && len(c.to.brokers) > 0 {
			return usage("--from-checkpoint takes the place of the log: leave out --data and --brokers, and give --to-brokers")
		}
	} else if err := c.logPlace.validate(); err != nil {
		return err
	}
	if c.data != "" && len(c.to.brokers) == 0 {
		return usage("--to-brokers is missing: the broker of %s takes one namespace only", c.data)
	}
	if c.toNamespace == "" {
		c.toNamespace = c.namespace
	}
	if len(c.to.brokers) == 0 {
		if c.toNamespace == c.namespace && len(c.checkpoints) == 0 {
			return usage("the copy would be the same namespace: give --to-brokers for another cluster, or --to-namespace for another name")
		}
		c.to = c.connection
	}
	if c.scratch != "" {
		if list, err := os.ReadDir(c.scratch); err == nil && len(list) > 0 {
			return usage("--scratch %s is not empty", c.scratch)
		}
	}
	return nil
}

// maxPartitions is more than any cluster serves well: each partition of the namespace is one of six topics.
const maxPartitions = 10_000

func (c *copyConfig) copy(cmd *cobra.Command) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	cfg := c.config(cmd)
	cfg.Checkpoints, cfg.Partitions = c.checkpoints, c.partitions
	if cfg.KeyFile, err = c.keyFile(newLogger(true)); err != nil {
		return err
	}
	if len(c.checkpoints) == 0 {
		cluster, closeLog, err := c.logPlace.open(cmd.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeLog()) }()
		cfg.From = namespacecopy.Place{Cluster: cluster, Namespace: c.namespace}
	}
	to, err := c.to.reach(cmd.Context())
	if err != nil {
		return fmt.Errorf("the cluster of the new namespace: %w", toError{err})
	}
	defer to.Close()
	cfg.To = namespacecopy.Place{Cluster: to, Namespace: c.toNamespace}
	made, err := namespacecopy.Copy(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	return printRows(cmd.OutOrStdout(), c.output, []*namespacecopy.Result{made}, printCopy)
}

func (c *copyConfig) config(cmd *cobra.Command) namespacecopy.Config {
	cfg := namespacecopy.Config{Dir: c.scratch, Now: time.Now}
	if !c.quiet {
		cfg.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	}
	return cfg
}

func printCopy(w io.Writer, rows []*namespacecopy.Result) error {
	for _, r := range rows {
		lines := []string{
			fmt.Sprintf("%s (%d partitions) is copied to %s (%d partitions), with the ID %s", r.From, r.FromPartitions, r.To, r.Partitions, r.ID),
			fmt.Sprintf("tasks: %d, of which %d have not ended", r.Tasks, r.Live),
			fmt.Sprintf("unjudged inputs: %d, held requests: %d, requests for work under way: %d, other records sent again: %d", r.Inputs, r.Held, r.Work, r.Sent),
			"start nodes there with an empty --data, then agents and producers",
		}
		for _, u := range r.Unsent {
			lines = append(lines, "a reply could not be sent: "+u)
		}
		if _, err := fmt.Fprintln(w, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func (c *copyConfig) reopen(cmd *cobra.Command) (err error) {
	if err := errors.Join(c.logPlace.validate(), refusePast(c.data)); err != nil {
		return err
	}
	if !c.discard {
		return usage("--copy-discarded is missing: both namespaces must never run. Delete the topics of the copy, or make sure that it was never complete, and say so with this flag")
	}
	cluster, closeLog, err := c.logPlace.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	cfg := c.config(cmd)
	cfg.From = namespacecopy.Place{Cluster: cluster, Namespace: c.namespace}
	if err := namespacecopy.Reopen(cmd.Context(), cfg); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "namespace %s is open again: start its nodes\n", c.namespace)
	return err
}
