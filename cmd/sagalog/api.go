package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/spf13/cobra"
)

// pastConfig holds the flags of api.
type pastConfig struct {
	sealFlags
	// gate is nil if everyone on this machine may read.
	gate            *access.Gate
	data, http      string
	readOnly, quiet bool
}

func apiCommand() *cobra.Command {
	var c pastConfig
	cmd := &cobra.Command{
		Use: "api", Short: "Serve a copy of the past: API and page, read only", Args: cobra.NoArgs,
		Long: `Serve the directory that ` + "`sagalog replay`" + ` made: the HTTP API and the page, on loopback, read only. Each command of the CLI that reads shows the past if
its --api names this address. Ages and waits are as of the moment of the copy.

(The API of a running namespace is part of ` + "`sagalog serve`" + `: see --roles there.)`,
		Example: `  sagalog api --read-only --data ./before
  sagalog api --read-only --data ./before --http 127.0.0.1:8700
  sagalog task list --state error --api http://127.0.0.1:8643`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", "", "the directory that replay made")
	f.StringVar(&c.http, "http", "127.0.0.1:8643", "where to listen (port 0 takes a free one)")
	f.BoolVar(&c.readOnly, "read-only", false, "serve it read only (required)")
	f.BoolVar(&c.quiet, "quiet", false, "print no banner, and log errors only")
	c.sealFlags.flags(f)
	return cmd
}

func (c *pastConfig) run(ctx context.Context) error {
	switch {
	case !c.readOnly:
		return usage("--read-only is missing: this command serves copies of the past, which can only be read; the API of a running namespace is part of `sagalog serve`")
	case c.data == "":
		return usage("--data is missing: give the directory that `sagalog replay` made")
	}
	if err := loopback("--http", c.http); err != nil {
		return err
	}
	return c.serve(ctx, func(addr string, m *past.Mark) {
		if !c.quiet {
			fmt.Printf("\n%s as of %s, read only. Ctrl-C ends it.\n\n  Page        http://%s\n  Tasks       %s task list --api http://%s\n\n", m.Namespace, m.At, addr, invocation(), addr)
		}
	})
}

// serve serves the copy until ctx ends, and calls ready once it can be read.
func (c *pastConfig) serve(ctx context.Context, ready func(addr string, m *past.Mark)) (err error) {
	mark, err := past.Open(c.data)
	if err == nil && mark == nil {
		err = usage("%s holds no copy of the past (--data): `sagalog replay` makes one", c.data)
	}
	if err != nil {
		return err
	}
	p := newProcess(c.quiet)
	broker, err := embedded.Open(embedded.Config{Dir: filepath.Join(c.data, past.BrokerDir), LockFile: filepath.Join(c.data, past.LockFile), Logger: p.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	cluster, err := kafka.Connect(broker.ClusterConfig())
	if err != nil {
		return err
	}
	defer cluster.Close()
	keys, err := c.keys(ctx, cluster, mark.Namespace, p.log)
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, node.Config{
		Cluster: cluster, Namespace: mark.Namespace, Name: "past", Dir: c.data, Roles: node.Roles{API: true, Projector: true}, HTTP: c.http, Past: mark.At,
		Access: c.gate, Keys: keys, Version: version(), Logger: p.log, Registry: p.metrics,
	})
	var busy *api.PortBusyError
	if errors.As(err, &busy) {
		return fmt.Errorf("--http: %w", err)
	}
	if err != nil {
		return err
	}
	ready(n.Addr(), mark)
	return stopped(ctx, n.Run(ctx))
}

// Past implements cli.Log.
func (l *logPlace) Past(ctx context.Context, of cli.PastOf, progress io.Writer) (p cli.Past, stop func() error, err error) {
	if err := l.validate(); err != nil {
		return p, nil, err
	}
	now, err := l.now()
	if err != nil {
		return p, nil, err
	}
	moment, err := past.Parse(of.At, now)
	if err != nil {
		return p, nil, usage("--at: %s", err)
	}
	cfg := past.Config{Moment: moment, Task: of.Task}
	if cfg.Checkpoints, err = l.checkpoints(of.Checkpoints); err != nil {
		return p, nil, err
	}
	gate := &access.Gate{}
	if gate.Peers, err = access.NewPeers(l.namespace, ""); err != nil {
		return p, nil, err
	}
	p.Token = gate.Grant("past", access.Viewer) // nobody else on this machine reads what this command may
	dir, err := os.MkdirTemp("", "sagalog-past-")
	if err != nil {
		return p, nil, err
	}
	cfg.Dir = dir
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away must not leave the directory behind: writing fails instead
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	stop = func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	if err = l.copyPast(ctx, cfg, progress); err != nil {
		ended <- err
		return p, nil, stop()
	}
	ready := make(chan string, 1)
	go func() {
		c := pastConfig{data: dir, http: "127.0.0.1:0", quiet: true, gate: gate}
		ended <- c.serve(ctx, func(addr string, _ *past.Mark) { ready <- addr })
	}()
	select {
	case p.Address = <-ready:
		if mark, err := past.Open(dir); err == nil && mark != nil {
			p.At, p.Checkpoint = mark.At, mark.Checkpoint
		}
		return p, stop, nil
	case err = <-ended:
		ended <- err
		return p, nil, stop()
	}
}

// now is the latest moment that a log can show: of a copy of the past, the one that it was made for.
func (l *logPlace) now() (time.Time, error) {
	if l.data == "" {
		return time.Now(), nil
	}
	mark, err := past.Open(l.data)
	if err != nil || mark == nil {
		return time.Now(), err
	}
	return mark.At.Time(), nil
}

// copyPast copies the log up to a moment, as cfg says.
func (l *logPlace) copyPast(ctx context.Context, cfg past.Config, progress io.Writer) (err error) {
	cluster, closeLog, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if _, err := readNamespace(ctx, cluster, l.namespace); err != nil {
		return err
	}
	return behind(progress, func(bar *verifyBar, warn func(string)) error {
		cfg.Cluster, cfg.Namespace, cfg.Progress, cfg.Warn = cluster, l.namespace, bar.count("replay"), warn
		_, err := past.Copy(ctx, cfg)
		return err
	})
}

// refusePast refuses a copy of the past, in which nothing may go on: it would call services again for what they have done since.
func refusePast(dir string) error {
	if dir == "" {
		return nil
	}
	mark, err := past.Open(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && mark == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s holds the past of %s, as of %s, in which nothing goes on: serve it with `%s api --read-only --data %s`, or give another --data", dir, mark.Namespace, mark.At, invocation(), dir)
}
