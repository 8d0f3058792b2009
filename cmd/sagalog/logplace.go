package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/pflag"
)

// logPlace says where a log is: on brokers, or in the data directory of a stopped sagalog dev.
type logPlace struct {
	connection
	data, namespace string
}

func (l *logPlace) validate() error {
	switch {
	case l.data == "" && len(l.brokers) == 0:
		return usage("give the place of the log: --data or --brokers")
	case l.data != "" && len(l.brokers) > 0:
		return usage("give one place of the log: --data (SAGALOG_DATA) or --brokers (SAGALOG_BROKERS), not both")
	case missing(l.data):
		return usage("%s does not exist (--data)", l.data)
	case l.data != "" && !hasBroker(l.data):
		return usage("%s does not hold a log (--data): give the --brokers that do", l.data)
	}
	if l.data != "" { // half a copy of the past would be read as if it were whole
		_, err := past.Open(l.data)
		return err
	}
	return nil
}

// checkpoints returns the directories of checkpoints with which a fold may begin: the given one, or that of the data directory if there is anything in it.
func (l *logPlace) checkpoints(given string) ([]string, error) {
	switch {
	case missing(given):
		return nil, usage("%s does not exist (--checkpoints)", given)
	case given != "":
		return []string{given}, nil
	case l.data != "":
		dir := filepath.Join(l.data, node.CheckpointsDir)
		if list, err := os.ReadDir(dir); err == nil && len(list) == 0 || errors.Is(err, os.ErrNotExist) {
			return nil, nil // no node has made any, and nobody named one
		}
		return []string{dir}, nil
	}
	return nil, nil
}

// behind shows a bar while run runs, and prints the warnings of run behind it.
func behind(w io.Writer, run func(bar *verifyBar, warn func(string)) error) error {
	var warnings []string
	bar := newVerifyBar(w)
	err := run(bar, func(warning string) {
		if !slices.Contains(warnings, warning) { // a second attempt may say the same
			warnings = append(warnings, warning)
		}
	})
	bar.close()
	for _, warning := range warnings {
		fmt.Fprintln(w, warning)
	}
	return err
}

// checkpointsFlag adds the flag of those directories.
func checkpointsFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "checkpoints", "", "directory of checkpoints of the state (sagalog state checkpoint), or one of them; the fold begins with the nearest one before the moment (default: checkpoints in --data)")
}

// missing says whether a named directory does not exist.
func missing(dir string) bool {
	_, err := os.Stat(dir)
	return dir != "" && errors.Is(err, os.ErrNotExist)
}

// open opens the log.
func (l *logPlace) open(ctx context.Context) (*kafka.Cluster, func() error, error) {
	if l.data != "" {
		s := stateConfig{data: l.data}
		cluster, closeLog, err := s.openBroker()
		return cluster, closeLog, inUse(err)
	}
	cluster, err := l.reach(ctx)
	if err != nil {
		return nil, nil, err
	}
	return cluster, func() error { cluster.Close(); return nil }, nil
}

// openedLog is the log of a namespace, open for reading.
type openedLog struct {
	verify.Log
	namespace scheduler.Namespace
	close     func() error
}

// read opens the log to read it, and the first record of its namespace. A data directory needs no broker for that.
func (l *logPlace) read(ctx context.Context) (_ openedLog, err error) {
	if l.data == "" {
		cluster, closeLog, err := l.open(ctx)
		if err != nil {
			return openedLog{}, err
		}
		ns, err := readNamespace(ctx, cluster, l.namespace)
		if err != nil {
			return openedLog{}, errors.Join(err, closeLog())
		}
		return openedLog{kafkalog.Log{Cluster: cluster}, ns, closeLog}, nil
	}
	files, err := embedded.OpenFiles(embedded.Config{Dir: brokerIn(l.data), LockFile: filepath.Join(l.data, lockFile), Logger: newLogger(true)})
	if err != nil {
		return openedLog{}, inUse(err)
	}
	ns, err := readNamespace(ctx, files, l.namespace)
	if err != nil {
		return openedLog{}, errors.Join(err, files.Close())
	}
	return openedLog{kafkalog.Files{Files: files}, ns, files.Close}, nil
}

// inUse adds to the error of a data directory in use what else the caller can do.
func inUse(err error) error {
	if _, held := errors.AsType[*embedded.LockedError](err); held {
		return fmt.Errorf("%w; or give the `--brokers` of it", err)
	}
	return err
}
