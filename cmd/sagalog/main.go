// Command sagalog is the engine and its client in one binary.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// version returns the module's version, or the commit of a build from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func newLogger(quiet bool) *slog.Logger {
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// limitFlags adds a flag for each limit.
func limitFlags(f *pflag.FlagSet, s *events.Settings) {
	f.IntVar(&s.SubmissionBytes, "submission-bytes", s.SubmissionBytes, "limit of a submission")
	f.IntVar(&s.PayloadBytes, "payload-bytes", s.PayloadBytes, "limit of a step's input and of its output")
	f.IntVar(&s.TaskFacts, "task-facts", s.TaskFacts, "limit of the facts of a task")
	f.IntVar(&s.HeldRequests, "held-requests", s.HeldRequests, "limit of requests held for tasks that are not there yet")
	f.DurationVar((*time.Duration)(&s.HeldFor), "held-for", s.HeldFor.Std(), "how long such a request is held")
	f.DurationVar((*time.Duration)(&s.Grace), "grace", s.Grace.Std(), "how long after a complete-by time a request may still land; no undo starts before")
	f.DurationVar((*time.Duration)(&s.RememberFor), "remember-for", s.RememberFor.Std(), "how long a finished task and its ID are remembered")
}
