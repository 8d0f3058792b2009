package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/internal/whatif"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// whatifConfig holds the flags of whatif.
type whatifConfig struct {
	logPlace
	workflow, since, until, tasks, format string
	draws, seed                           int
}

// errNotReproduced ends whatif with 1, which nothing else does.
var errNotReproduced = errors.New("the replay does not reproduce history")

// maxDraws is more than anybody waits for.
const maxDraws = 10_000

func whatifCommand() *cobra.Command {
	var c whatifConfig
	cmd := &cobra.Command{
		Use: "whatif POLICY.yaml", Short: "Estimate how recorded tasks would have ended under another retry policy", Args: cobra.ExactArgs(1),
		Long: `Replay the recorded tasks of a workflow under another policy, and estimate how they would have ended. POLICY.yaml is the definition of the workflow with
the policy to try. It may differ from what the tasks ran only in retry, cool_down, complete_within, heartbeat, start_within, on_timeout and remind_after
of steps, retry and complete_within of undos, and the deadline, remind_after and remember_for of the workflow.

The engine's own code decides in the replay, in virtual time. If history has the same attempt at about the same instant, its answer and duration are used.
Otherwise they are those of an attempt, drawn at random, that called the same operation of the same agent near that instant. The table shows history, and the range
from the 5th to the 95th percentile of the draws. Results that cannot be estimated are shown as unknown: an operation has too few samples,
an attempt that timed out is now allowed more time, or a signal never came. The load that more attempts put on agents is not modelled.

First each task is replayed under the policy that was in force. If fewer than 95 % of the tasks end as they did, only that is printed. Tasks that had not
ended, and those about which an operator decided before their end, count as not reproduced: choose --until so that most tasks have ended. What operators did
about parked tasks is not replayed: a parked task counts as ended. Children are not modelled: tasks with steps that other tasks do, and tasks that
other tasks started, are not replayed, and the estimate says nothing about them. Nor are tasks with encrypted values. The output counts all of these by reason.

The log is on --brokers, or in the --data of a stopped dev or of a replay. The same log, policy, draws and seed give the same output. Exit code: 0 if there
is an estimate, 1 if the replay does not reproduce history, 2 if nothing could be replayed.`,
		Example: `  sagalog whatif patient.yaml --brokers k1:9092 --since 7d
  sagalog whatif patient.yaml --data ./sagalog-data --since 24h --until 1h --tasks ./tasks.jsonl
  sagalog whatif patient.yaml --brokers k1:9092 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			estimated, err := c.run(cmd, args[0], whatif.Run)
			if err == nil && !estimated {
				return cli.Silent(errNotReproduced)
			}
			return cli.Unanswered(err)
		},
	}
	f := cmd.Flags()
	c.logPlace.Flags(f)
	f.StringVar(&c.workflow, "workflow", "", "name of the workflow; default: that of POLICY.yaml, which must be the same")
	f.StringVar(&c.since, "since", "7d", "only tasks that were submitted from this time on: an instant, or a duration before now such as 24h or 7d")
	f.StringVar(&c.until, "until", "", "only tasks that were submitted before this time")
	f.IntVar(&c.draws, "draws", 200, "how often to draw what history does not have")
	f.IntVar(&c.seed, "seed", 1, "number that the draws follow from")
	f.StringVar(&c.tasks, "tasks", "", "file for a line of JSON about each task; it must not exist")
	f.StringVarP(&c.format, "output", "o", "table", "table or json")
	return cmd
}

// run replays, and says whether there is an estimate.
func (c *whatifConfig) run(cmd *cobra.Command, file string, replay func(context.Context, whatif.Config) (*whatif.Report, error)) (estimated bool, err error) {
	if err := errors.Join(c.validate(), c.logPlace.validate()); err != nil {
		return false, err
	}
	text, src, err := c.policy(cmd, file)
	if err != nil {
		return false, err
	}
	cfg := whatif.Config{Policy: src, Draws: c.draws, Seed: uint64(c.seed), Topic: kafkalog.Topics(c.namespace).Events}
	if err := c.times(&cfg); err != nil {
		return false, err
	}
	log, err := c.logPlace.read(cmd.Context())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	written, err := c.create()
	if err != nil {
		return false, err
	}
	if written != nil {
		cfg.Tasks = written
		defer func() {
			if err = errors.Join(err, written.Close()); err != nil || !estimated { // so that the call can be repeated
				err = errors.Join(err, os.Remove(c.tasks))
			}
		}()
	}
	cfg.Log = log
	var rep *whatif.Report
	err = readUncut(cmd.ErrOrStderr(), func(bar *verifyBar) (err error) {
		cfg.Progress = func(what string, done, of int64) { bar.count(what)(done, of) }
		rep, err = replay(cmd.Context(), cfg)
		return err
	})
	if err != nil {
		return false, c.explain(file, text, err)
	}
	return rep.Estimate != nil, c.show(cmd, rep)
}

// times reads the times of the flags.
func (c *whatifConfig) times(cfg *whatif.Config) error {
	now, err := c.logPlace.now()
	if err != nil {
		return err
	}
	if cfg.Since, err = exportTime("since", c.since, now); err != nil {
		return err
	}
	if cfg.Until, err = exportTime("until", c.until, now); err != nil {
		return err
	}
	if cfg.Until != 0 && cfg.Until <= cfg.Since {
		return usage("--until is not later than --since: there is nothing to replay")
	}
	return nil
}

func (c *whatifConfig) validate() error {
	switch {
	case c.format != "table" && c.format != "json":
		return usage("-o %q is not known; %s", c.format, events.Suggest(c.format, []string{"table", "json"}))
	case c.draws < 1 || c.draws > maxDraws:
		return usage("--draws %d is not from 1 to %d", c.draws, maxDraws)
	}
	return nil
}

// policy reads the policy file.
func (c *whatifConfig) policy(cmd *cobra.Command, file string) ([]byte, *scheduler.Source, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		return nil, nil, usage("POLICY.yaml: %s", err)
	}
	text, err := readRegular(os.DirFS(filepath.Dir(file)), filepath.Base(file))
	if err != nil {
		return nil, nil, usage("POLICY.yaml: %s", err)
	}
	src, faults := loadDefinition(file, text)
	for _, f := range faults {
		fmt.Fprintln(cmd.ErrOrStderr(), cli.Printable(f.String()))
	}
	switch {
	case src == nil:
		return nil, nil, usage("%s cannot be used: see the faults above", file)
	case c.workflow != "" && c.workflow != src.Workflow:
		return nil, nil, usage("%s is a definition of workflow %q, and --workflow is %q: give a definition of that workflow", file, src.Workflow, c.workflow)
	}
	return text, src, nil
}

// create creates the file of --tasks; nil if there is to be none.
func (c *whatifConfig) create() (*os.File, error) {
	if c.tasks == "" {
		return nil, nil
	}
	f, err := os.OpenFile(c.tasks, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, usage("%s exists already (--tasks): give another name", c.tasks)
	}
	if err != nil {
		return nil, usage("--tasks: %s", err)
	}
	return f, nil
}

// explain says what an error means.
func (c *whatifConfig) explain(file string, text []byte, err error) error {
	var other *whatif.PolicyError
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.As(err, &other):
		place := scheduler.Places(text)
		for _, pointer := range other.Pointers() {
			if line, column, found := place(pointer); found {
				return fmt.Errorf("%s:%d:%d: %w", file, line, column, err)
			}
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	return err
}

func (c *whatifConfig) show(cmd *cobra.Command, rep *whatif.Report) error {
	if c.format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
	}
	var text bytes.Buffer
	p := whatifPrinter{out: &text, tasks: c.tasks}
	p.print(rep)
	_, err := text.WriteTo(cmd.OutOrStdout())
	return err
}
