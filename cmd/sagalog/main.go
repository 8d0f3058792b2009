// Command sagalog is the engine and its client in one binary.
//
//	go run github.com/sagalog/sagalog/cmd/sagalog dev    # everything in one process, to try it
//	sagalog serve --brokers kafka:9092 --node n1         # a node of an engine
//	sagalog workflow apply order.yaml
//	sagalog task submit -w order --input '{"total": 12}' --wait
//
// `dev` runs a broker at 127.0.0.1:9092, and the API and the page at http://127.0.0.1:8642, and prints what to try. `sagalog help` lists all commands,
// and docs/reference/cli.md has them with their flags. Go programs use package scheduler/client, and agents package agent.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/sagalog/sagalog/events"
	"github.com/spf13/pflag"
)

func main() {
	execagent.Guard()
	keepPrivate()
	tuneCollector()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // a closed terminal ends it too, unless nohup is used
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func newLogger(quiet bool) *slog.Logger {
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// settingFlags adds a flag for each setting that a node may bring along. They belong to the namespace.
func settingFlags(f *pflag.FlagSet, s *events.Settings) {
	const shared = "; a setting of the namespace: the start is refused if the namespace has a different value (see sagalog namespace set)"
	f.IntVar(&s.SubmissionBytes, "submission-bytes", s.SubmissionBytes, "limit of a submission"+shared)
	f.IntVar(&s.PayloadBytes, "payload-bytes", s.PayloadBytes, "limit of a step's input and of its output"+shared)
	f.IntVar(&s.TaskFacts, "task-facts", s.TaskFacts, "limit of the facts of a task"+shared)
	f.IntVar(&s.HeldRequests, "held-requests", s.HeldRequests, "limit of the requests that are held for tasks that do not exist yet"+shared)
	f.DurationVar((*time.Duration)(&s.HeldFor), "held-for", s.HeldFor.Std(), "how long a request is held for a task that does not exist yet"+shared)
	f.DurationVar((*time.Duration)(&s.Grace), "grace", s.Grace.Std(), "how long after a complete-by time a request may still land; no undo starts before"+shared)
	f.DurationVar((*time.Duration)(&s.RememberFor), "remember-for", s.RememberFor.Std(), "how long a finished task and its ID are remembered"+shared)
}

// settingsGiven returns the names of the settings whose flags, or variables, are given.
func settingsGiven(f *pflag.FlagSet) (names []string) {
	for _, x := range events.SettingList() {
		if f.Changed(strings.ReplaceAll(x.Name, "_", "-")) {
			names = append(names, x.Name)
		}
	}
	return names
}

// checkSettings refuses values out of range.
func checkSettings(s *events.Settings) error {
	if err := s.Check(); err != nil {
		name, rest, _ := strings.Cut(err.Error(), " ")
		return usage("--%s %s", strings.ReplaceAll(name, "_", "-"), rest)
	}
	return nil
}
