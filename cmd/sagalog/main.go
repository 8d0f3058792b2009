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
	f.IntVar(&s.HeldRequests, "held-requests", s.HeldRequests, "limit of the requests that are held for tasks that do not exist yet")
	f.DurationVar((*time.Duration)(&s.HeldFor), "held-for", s.HeldFor.Std(), "how long a request is held for a task that does not exist yet")
	f.DurationVar((*time.Duration)(&s.Grace), "grace", s.Grace.Std(), "how long after a complete-by time a request may still land; no undo starts before")
	f.DurationVar((*time.Duration)(&s.RememberFor), "remember-for", s.RememberFor.Std(), "how long a finished task and its ID are remembered")
}

// checkLimits refuses limits below the smallest useful value.
func checkLimits(s *events.Settings) error {
	for _, l := range []struct {
		flag  string
		value int64
		least int64
	}{
		{"--submission-bytes", int64(s.SubmissionBytes), 1}, {"--payload-bytes", int64(s.PayloadBytes), 1},
		{"--task-facts", int64(s.TaskFacts), 10}, {"--held-requests", int64(s.HeldRequests), 0},
		{"--held-for", int64(s.HeldFor), int64(time.Second)}, {"--grace", int64(s.Grace), 0},
		{"--remember-for", int64(s.RememberFor), int64(time.Second)},
	} {
		if l.value < l.least {
			return usage("%s is too small for anything to work", l.flag)
		}
	}
	if s.SubmissionBytes > 1<<20 || s.PayloadBytes > 512<<10 {
		return usage("--submission-bytes is at most 1 MiB and --payload-bytes at most 512 KiB: a fact holds them, and a record of the log at most 2 MiB")
	}
	return nil
}
