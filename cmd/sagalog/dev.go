package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// devConfig is the flags of dev.
type devConfig struct {
	data, http, kafka, demo, agents, workflows, pprof string

	partitions    int32
	partitionsSet bool
	fsync, quiet  bool
	settings      events.Settings
	sweep         time.Duration
}

// The values of --demo.
const (
	demoDrone = "drone-delivery"
	demoNone  = "none"
)

func devCommand() *cobra.Command {
	c := devConfig{settings: events.DefaultSettings()}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: broker, engine, agents, API and an example",
		Long: `Run everything in one process: an embedded, durable, Kafka-compatible broker, the engine, its agents, the
HTTP API, and an example (drone delivery: five real HTTP services) that you can break and watch recover.

Nothing has to be installed. Everything listens on loopback. What is accepted survives Ctrl-C and kill -9: start it
again on the same --data and it goes on where it was. A power cut may lose the last of it, unless --fsync is given.`,
		Example: `  sagalog dev
  sagalog dev --data /tmp/try --http 127.0.0.1:0 --kafka 127.0.0.1:0
  sagalog dev --demo none --workflows ./workflows --agents ./agents`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions") || os.Getenv("SAGALOG_PARTITIONS") != ""
			return runDev(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", "./sagalog-data", "directory of everything that lasts")
	f.StringVar(&c.http, "http", api.DefaultAddr, "where the HTTP API listens (port 0 takes a free one)")
	f.StringVar(&c.kafka, "kafka", "127.0.0.1:9092", "where the embedded broker listens (port 0 takes a free one)")
	f.Int32Var(&c.partitions, "partitions", 8, "partitions of a new data directory; fixed from then on")
	f.BoolVar(&c.fsync, "fsync", false, "have the broker answer only when the disk has what it tells: slower, and survives a power cut")
	f.StringVar(&c.demo, "demo", demoDrone, "the example to run: drone-delivery or none")
	f.StringVar(&c.agents, "agents", "", "directory of your own HTTP agents (*.yaml), loaded at the start")
	f.StringVar(&c.workflows, "workflows", "", "directory of your own workflows (*.yaml, *.json), applied at the start")
	f.BoolVar(&c.quiet, "quiet", false, "print no banner, and log errors only")
	f.DurationVar(&c.sweep, "sweep", 0, "how often due timers are looked for (default 50ms)")
	f.StringVar(&c.pprof, "pprof", "", "where profiles are served, such as 127.0.0.1:6060 (off by default)")
	limitFlags(f, &c.settings)
	return cmd
}

func (c *devConfig) validate() error {
	if c.demo != demoDrone && c.demo != demoNone {
		return usage("--demo %q is not known: %s or %s", c.demo, demoDrone, demoNone)
	}
	if c.partitions < 1 || c.partitions > 1000 {
		return usage("--partitions %d is not from 1 to 1000", c.partitions)
	}
	if c.sweep < 0 {
		return usage("--sweep %s is negative", c.sweep)
	}
	if err := loopback("--http", c.http); err != nil {
		return err
	}
	if err := loopback("--kafka", c.kafka); err != nil {
		return err
	}
	return checkLimits(&c.settings)
}

// durability says what survives what.
func (c *devConfig) durability() string {
	if c.fsync {
		return "what is accepted survives Ctrl-C, kill -9 and a power cut: the disk has it before anybody is told (--fsync)"
	}
	return "what is accepted survives Ctrl-C and kill -9; a power cut may lose the last of it (start with --fsync if it must not)"
}

// loopback refuses an address that other machines reach: neither the API nor the broker asks anybody who he is.
func loopback(flag, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usage("%s %q is not HOST:PORT, such as 127.0.0.1:0", flag, addr)
	}
	if host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return usage("%s %q is reached from other machines, and there is no authentication yet: use 127.0.0.1", flag, addr)
	}
	return nil
}

// dev is a running development engine.
type dev struct {
	cfg      devConfig
	log      *slog.Logger
	metrics  *prometheus.Registry
	broker   *kafka.Broker
	cluster  *kafka.Cluster
	fleet    *dronedelivery.Fleet
	node     *node.Node
	agents   *agent.Connection
	bindings *bindings
}

func runDev(ctx context.Context, c devConfig) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	d := &dev{cfg: c, log: newLogger(c.quiet), metrics: prometheus.NewRegistry()}
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range []func(context.Context) error{d.openBroker, d.openFleet, d.openNode, d.applyWorkflows, d.openAgents, d.writeEndpoints} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !c.quiet {
		d.banner(os.Stdout)
	}
	return d.run(ctx)
}

func (d *dev) openBroker(context.Context) error {
	if err := devDirectory(d.cfg.data); err != nil {
		return err
	}
	switch f := spaceOf(d.cfg.data, existing(d.cfg.data)); f.Status {
	case kafka.StatusFail:
		return errors.New(f.String())
	case kafka.StatusWarn:
		d.log.Warn(f.What, "remedy", f.Remedy)
	}
	if err := os.MkdirAll(d.cfg.data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	var err error
	d.broker, err = kafka.OpenBroker(kafka.BrokerConfig{
		Dir: filepath.Join(d.cfg.data, "broker"), LockFile: filepath.Join(d.cfg.data, lockFile), Addr: d.cfg.kafka,
		Fsync: d.cfg.fsync, Logger: d.log,
	})
	var busy *kafka.PortBusyError
	if errors.As(err, &busy) {
		return fmt.Errorf("--kafka: %w", err)
	}
	if err != nil {
		return err
	}
	d.cluster, err = kafka.Connect(d.broker.ClusterConfig())
	return err
}

// devDirectory refuses a directory that `sagalog serve` made, before a broker is put beside its state.
func devDirectory(dir string) error {
	_, noState := os.Stat(filepath.Join(dir, "state"))
	if _, err := os.Stat(filepath.Join(dir, "broker")); noState == nil && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is a data directory of `sagalog serve`: it holds state, and its log is on a Kafka cluster; give another --data", dir)
	}
	return nil
}

func (d *dev) openFleet(context.Context) error {
	if d.cfg.demo == demoNone {
		return nil
	}
	var err error
	d.fleet, err = dronedelivery.New(dronedelivery.Config{Dir: filepath.Join(d.cfg.data, "demo"), Addr: "127.0.0.1", Log: d.log})
	if err != nil {
		return err
	}
	return d.fleet.Listen()
}

func (d *dev) openNode(ctx context.Context) error {
	cfg := node.Config{
		Cluster: d.cluster, Name: "dev", Dir: d.cfg.data, Partitions: d.cfg.partitions, PartitionsSet: d.cfg.partitionsSet,
		HTTP: d.cfg.http, Settings: d.cfg.settings, Tick: d.cfg.sweep, Version: version(), Logger: d.log, Registry: d.metrics,
	}
	if d.fleet != nil {
		cfg.Demo = &demo{d.fleet.URLs()}
	}
	var err error
	d.node, err = node.Open(ctx, cfg)
	return err
}

// applyWorkflows applies the example's workflow and those of --workflows.
func (d *dev) applyWorkflows(ctx context.Context) error {
	a := applier{node: d.node, log: d.log}
	if d.fleet != nil {
		if err := a.file(ctx, dronedelivery.Files(), definitionFile{name: "workflow.yaml", place: "workflow.yaml"}); err != nil {
			return err
		}
	}
	return a.folder(ctx, d.cfg.workflows)
}

func (d *dev) openAgents(ctx context.Context) error {
	d.bindings = newBindings()
	if d.fleet != nil {
		env := d.fleet.Env()
		files, err := fs.Sub(dronedelivery.Files(), "agents")
		if err != nil {
			return err
		}
		if err := d.bindings.files(files, func(k string) (string, bool) { v, ok := env[k]; return v, ok }); err != nil {
			return err
		}
	}
	if err := d.bindings.folder(d.cfg.agents); err != nil {
		return err
	}
	if len(d.bindings.names()) == 0 {
		return nil
	}
	var err error
	d.agents, err = agent.Attach(ctx, d.cluster, d.bindings.registry, agent.Config{
		Instance: "dev", OutputLimit: d.cfg.settings.PayloadBytes, Registerer: d.metrics, Log: d.log,
	})
	return err
}

func (d *dev) writeEndpoints(context.Context) error {
	e := endpoints{HTTP: "http://" + d.node.Addr(), Kafka: d.broker.Addr(), Services: map[string]string{}}
	if d.fleet != nil {
		e.Services = d.fleet.URLs()
	}
	return e.write(d.cfg.data)
}

// run works until Ctrl-C. The parts end in the reverse order of their need: the broker, which all of them speak to,
// last, in close.
func (d *dev) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.node.Run(ctx) })
	if d.agents != nil {
		g.Go(func() error { return d.agents.Run(ctx) })
	}
	if d.fleet != nil {
		g.Go(func() error { return d.fleet.Run(ctx) })
		g.Go(func() error { return trickle(ctx, "http://"+d.node.Addr(), d.log) })
	}
	if d.cfg.pprof != "" {
		g.Go(func() error { return servePprof(ctx, d.cfg.pprof) })
	}
	err := g.Wait()
	d.node, d.fleet, d.agents = nil, nil, nil // they have closed themselves
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (d *dev) close() error {
	var errs []error
	if d.node != nil {
		errs = append(errs, d.node.Close())
	}
	if d.fleet != nil {
		errs = append(errs, d.fleet.Close())
	}
	if d.bindings != nil {
		d.bindings.close()
	}
	if d.cluster != nil {
		d.cluster.Close()
	}
	if d.broker != nil {
		errs = append(errs, d.broker.Close())
	}
	return errors.Join(errs...)
}
