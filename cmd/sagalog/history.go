package main

import (
	"context"
	"errors"
	"io"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/spf13/pflag"
)

// Flags implements cli.Log.
func (l *logPlace) Flags(f *pflag.FlagSet) {
	l.connection.flags(f)
	f.StringVar(&l.data, "data", "", "data directory of a stopped sagalog dev, which holds its log")
	f.StringVar(&l.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	cli.Alternatives(f, "brokers", "data")
}

// History implements cli.Log.
func (l *logPlace) History(ctx context.Context, task string, progress io.Writer, show func(api.HistoryEvent) error) (_ cli.LogPlace, err error) {
	if err := l.validate(); err != nil {
		return cli.LogPlace{}, err
	}
	log, err := l.read(ctx)
	if err != nil {
		return cli.LogPlace{}, err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	bar := newVerifyBar(progress)
	defer bar.close()
	at := cli.LogPlace{Topic: kafka.Topics{Namespace: l.namespace}.Events(), Partition: events.Home(task, log.namespace.Partitions)}
	bounds, err := verify.History(ctx, verify.Search{Log: log, Topic: at.Topic, Task: task, Progress: bar.show},
		func(r events.Record, owner string) error {
			return show(api.EventOf(api.LoggedFact{Record: r, Owner: owner}))
		})
	at.From = bounds.Start
	return at, err
}
