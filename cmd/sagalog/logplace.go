package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/past"
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
		if _, held := errors.AsType[*embedded.LockedError](err); held {
			err = fmt.Errorf("%w; or give the `--brokers` of it", err)
		}
		return cluster, closeLog, err
	}
	cluster, err := l.reach(ctx)
	if err != nil {
		return nil, nil, err
	}
	return cluster, func() error { cluster.Close(); return nil }, nil
}
