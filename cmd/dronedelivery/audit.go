package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/spf13/cobra"
)

type auditFlags struct {
	brokers            []string
	namespace          string
	services, ledgers  string
	prefix, ids        string
	count, first, show int
	allowParked        bool
	allowMissingWork   bool
	epochs             bool
	lie                uint64
	lies               bool
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Compare every delivery and every call in the ledgers with the engine's log",
		Long: `Verifies the log of the namespace as 'sagalog verify' does (each epoch has one owner, each attempt one outcome, undo is
complete and in reverse order, and every effect belongs to an accepted fact). Then compares every delivery, and every line of
the five services' ledgers, with the log:

  - each submission (--count or --ids) was accepted, and ended processed or undone;
  - each call that a service received belongs to an attempt in the log, and has its identifier;
  - each completed step got a 2xx, and each step that failed with a status got that status;
  - each undo that succeeded came after the call that it undid;
  - an undone delivery has no effect left, and a processed one has all of its effects;
  - each alert is the effect of an accepted fact.

A JSON summary goes to stdout: the owners of each partition, the time from the last fact of each epoch to the first of the
next, how long deliveries waited, and with --epochs a list of the epochs. The exit code is 1 if anything disagrees; the first
disagreements are in the summary and on stderr.

--lie SEED changes one ledger line in memory before the comparison (depending on seed mod 4, it drops the line or changes its
attempt, identifier or status). The audit must then fail, and name the line.`,
		Example: `  dronedelivery audit --brokers 127.0.0.1:9092 --services ./services/endpoints.json --count 10000
  dronedelivery audit --brokers 127.0.0.1:9092 --ledgers ./services --prefix monday- --allow-parked
  dronedelivery audit --brokers 127.0.0.1:9092 --ledgers ./services --count 10000 --lie 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.lies = cmd.Flags().Changed("lie")
			if err := f.validate(); err != nil {
				return cli.Usage("audit: %w", err)
			}
			return audit(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.brokers, "brokers", nil, "`HOST:PORT` of the engine's Kafka")
	flags.StringVar(&f.namespace, "namespace", events.DefaultNamespace, "namespace of the engine's topics")
	flags.StringVar(&f.services, "services", "", "`FILE` endpoints.json of the services, or such JSON itself")
	flags.StringVar(&f.ledgers, "ledgers", "", "`DIR` of the ledgers; read instead of asking the services")
	flags.StringVar(&f.prefix, "prefix", "delivery-", "audit only tasks whose ID has this prefix")
	flags.IntVarP(&f.count, "count", "n", 0, "PREFIX1 to PREFIXn were submitted; 0 takes the tasks in the log")
	flags.IntVar(&f.first, "first", 1, "number of the first delivery")
	flags.StringVar(&f.ids, "ids", "", "`FILE` with the submitted IDs, one a line, instead of --count")
	flags.BoolVar(&f.allowParked, "allow-parked", false, "a delivery may be parked for an operator")
	flags.BoolVar(&f.allowMissingWork, "allow-missing-work", false, "work requests may be missing, since their topic was recreated")
	flags.BoolVar(&f.epochs, "epochs", false, "the summary lists each epoch of each partition")
	flags.IntVar(&f.show, "show", 20, "how many disagreements to show")
	flags.Uint64Var(&f.lie, "lie", 0, "`SEED`: change one ledger line in memory first")
	return cmd
}

func (f auditFlags) validate() error {
	var all faults
	all.add(len(f.brokers) == 0, "--brokers is missing")
	all.add((f.services == "") == (f.ledgers == ""), "one of --services and --ledgers is needed")
	all.add(f.count < 0 || f.first < 0, "--count and --first must not be negative")
	all.add(f.count > 0 && f.ids != "", "--count and --ids exclude each other")
	return errors.Join(all...)
}

// submitted returns the IDs that must be accounted for; nil means the tasks in the log.
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
		return cli.Usage("audit: %w", err)
	}
	defer cluster.Close()
	// The ledgers and the alerts are read first, so that the log, which is read later, holds the fact of each entry.
	entries, err := readLedgers(ctx, f)
	if err != nil {
		return err
	}
	log := kafkalog.Log{Cluster: cluster}
	alerts, err := readAlerts(ctx, log, f.namespace)
	if err != nil {
		return err
	}
	book := newLogBook(f.prefix)
	if book.asked, err = readAsked(ctx, log, f.namespace, f.prefix); err != nil {
		return err
	}
	verified, err := verify.Run(ctx, verify.Config{
		Log: log, Topics: kafkalog.Topics(f.namespace), Now: events.At(time.Now()), Show: math.MaxInt, Fact: book.fact,
	})
	if err != nil {
		return err
	}
	if book.namespace, err = uuid.Parse(verified.Namespace); err != nil {
		return fmt.Errorf("the ID of namespace %s: %w", f.namespace, err)
	}
	return judge(newComparison(book, entries, alerts, verified), ids, f, stdout, stderr)
}

// judge compares and reports.
func judge(c *comparison, ids []string, f auditFlags, stdout, stderr io.Writer) error {
	r := &report{}
	if f.lies {
		r.Lie = c.lie(f.lie)
	}
	if f.allowMissingWork {
		c.verified.Findings = slices.DeleteFunc(c.verified.Findings, func(f verify.Finding) bool { return f.Kind == "work_missing" })
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
		if r.Disagreements == 1 {
			return errors.New("1 disagreement")
		}
		return fmt.Errorf("%d disagreements", r.Disagreements)
	}
	return nil
}
