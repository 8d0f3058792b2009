package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/spf13/cobra"
)

type auditFlags struct {
	brokers            []string
	namespace          string
	services, ledgers  string
	prefix, ids        string
	count, first, show int
	allowParked        bool
	epochs             bool
	lie                uint64
	lies               bool
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Compare every delivery and every call in the ledgers with the engine's log",
		Long: `Reads all of NAMESPACE.events and the ledgers of the five services, and compares every delivery and every line:

  - each submission (--count or --ids) was accepted exactly once, and ended processed or undone;
  - each call that a service received is of an attempt that the log holds, with its identifier;
  - each completed step has its 2xx, each step that failed by a status has that status;
  - each undo that succeeded came after what it undid, in reverse order, one by one;
  - an undone delivery has no effect left, a processed one has all of them;
  - each attempt has one outcome, and nothing happens after a delivery's end;
  - each epoch has one owner, who alone wrote its records, and epochs do not interleave;
  - each work request, dead letter, forward and alert is the effect of an accepted fact, never of a void one.

The log is read by the rule of events/FORMAT.md and nothing else of the engine: only the current epoch, in it only the
next sequence. A JSON summary goes to stdout, with who owned what, the time from the last fact of each epoch to the
first of the next, and how long deliveries waited; with --epochs also each epoch. It exits with 1 if anything disagrees;
the first disagreements are in the summary and on stderr.

--lie SEED changes one ledger line in memory before the comparison (seed mod 4: drops it, changes its attempt, its
identifier, its status). An audit that is worth anything then fails, and names the line.`,
		Example: `  dronedelivery audit --brokers 127.0.0.1:9092 --services ./services/endpoints.json --count 10000
  dronedelivery audit --brokers 127.0.0.1:9092 --ledgers ./services --prefix monday- --allow-parked
  dronedelivery audit --brokers 127.0.0.1:9092 --ledgers ./services --count 10000 --lie 7`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.lies = cmd.Flags().Changed("lie")
			if err := f.validate(); err != nil {
				return usageError{fmt.Errorf("audit: %w", err)}
			}
			return audit(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.brokers, "brokers", nil, "`HOST:PORT` of the engine's Kafka")
	flags.StringVar(&f.namespace, "namespace", "sagalog", "namespace of the engine's topics")
	flags.StringVar(&f.services, "services", "", "`FILE` endpoints.json of the services, or such JSON itself")
	flags.StringVar(&f.ledgers, "ledgers", "", "`DIR` of the ledgers; read instead of asking the services")
	flags.StringVar(&f.prefix, "prefix", "delivery-", "audit only tasks whose ID begins so")
	flags.IntVarP(&f.count, "count", "n", 0, "PREFIX1 to PREFIXn were submitted; 0: whatever the log holds")
	flags.IntVar(&f.first, "first", 1, "number of the first one")
	flags.StringVar(&f.ids, "ids", "", "`FILE` with the submitted IDs, one a line, instead of --count")
	flags.BoolVar(&f.allowParked, "allow-parked", false, "a delivery may be parked in front of an operator")
	flags.BoolVar(&f.epochs, "epochs", false, "the summary lists each epoch of each partition")
	flags.IntVar(&f.show, "show", 20, "how many disagreements are shown")
	flags.Uint64Var(&f.lie, "lie", 0, "`SEED`: change one ledger line in memory first")
	return cmd
}

func (f auditFlags) validate() error {
	var faults []error
	if len(f.brokers) == 0 {
		faults = append(faults, errors.New("--brokers is missing"))
	}
	if (f.services == "") == (f.ledgers == "") {
		faults = append(faults, errors.New("one of --services and --ledgers is needed"))
	}
	if f.count < 0 || f.first < 0 {
		faults = append(faults, errors.New("--count and --first are not negative"))
	}
	if f.count > 0 && f.ids != "" {
		faults = append(faults, errors.New("--count and --ids exclude each other"))
	}
	return errors.Join(faults...)
}

// submitted returns the IDs that must be accounted for; nil for those that the log holds.
func (f auditFlags) submitted() ([]string, error) {
	var ids []string
	for i := range f.count {
		ids = append(ids, f.prefix+strconv.Itoa(f.first+i))
	}
	if f.ids != "" {
		b, err := os.ReadFile(f.ids)
		if err != nil {
			return nil, fmt.Errorf("read the submitted IDs: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if id := strings.TrimRight(line, "\r\n"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

func audit(ctx context.Context, f auditFlags, stdout, stderr io.Writer) error {
	ids, err := f.submitted()
	if err != nil {
		return err
	}
	cluster, err := kafka.Connect(kafka.ClusterConfig{Brokers: f.brokers, ClientID: "dronedelivery-audit"})
	if err != nil {
		return usageError{fmt.Errorf("audit: %w", err)}
	}
	defer cluster.Close()
	// The ledgers and the effects first: what comes meanwhile then has its fact in the log.
	entries, err := readLedgers(ctx, f)
	if err != nil {
		return err
	}
	effects, err := readEffects(ctx, cluster, f.namespace)
	if err != nil {
		return err
	}
	book, err := readLog(ctx, cluster, f)
	if err != nil {
		return err
	}
	ns, err := node.ReadNamespace(ctx, cluster, f.namespace)
	if err != nil {
		return err
	}
	if book.namespace, err = uuid.Parse(ns.ID); err != nil {
		return fmt.Errorf("the ID of namespace %s: %w", f.namespace, err)
	}
	return judge(newComparison(book, entries, effects), ids, f, stdout, stderr)
}

// judge compares and reports.
func judge(c *comparison, ids []string, f auditFlags, stdout, stderr io.Writer) error {
	r := &report{}
	if f.lies {
		r.Lie = c.lie(f.lie)
	}
	c.run(ids, f.allowParked)
	r.fill(c, f)
	for _, d := range r.First {
		fmt.Fprintln(stderr, d)
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	if r.Disagreements > 0 {
		return fmt.Errorf("%d disagreements", r.Disagreements)
	}
	return nil
}
