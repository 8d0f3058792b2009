package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/orders"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/internal/traces"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// devConfig holds the flags of dev.
type devConfig struct {
	engineFlags
	sealFlags
	data, http, kafka, demo, agents string
	fsync                           bool
}

// The values of --demo.
const (
	demoDrone  = "drone-delivery"
	demoOrders = "orders"
	demoNone   = "none"
)

func devCommand() *cobra.Command {
	var c devConfig
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: broker, engine, agents, API and an example",
		Long: `Run everything in one process: an embedded, durable, Kafka-compatible broker, the engine, its agents, the
HTTP API, and an example (drone delivery: five real HTTP services) that you can break and watch recover.

Nothing has to be installed. Everything listens on loopback. Accepted tasks survive Ctrl-C and kill -9: start it again
with the same --data and it continues. A power cut may lose the most recent ones, unless --fsync is given.

` + traces.Variables,
		Example: `  sagalog dev
  sagalog dev --data /tmp/try --http 127.0.0.1:0 --kafka 127.0.0.1:0
  sagalog dev --demo orders
  sagalog dev --demo none --workflows ./workflows --agents ./agents`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.partitionsSet = cmd.Flags().Changed("partitions")
			c.settingsSet = settingsGiven(cmd.Flags())
			return runDev(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", "./sagalog-data", "directory of all data")
	f.StringVar(&c.http, "http", api.DefaultAddr, "where the HTTP API listens (port 0 takes a free one)")
	f.StringVar(&c.kafka, "kafka", "127.0.0.1:9092", "where the embedded broker listens (port 0 takes a free one)")
	f.BoolVar(&c.fsync, "fsync", false, "make the broker answer only when the data is on the disk: slower, but survives a power cut")
	f.StringVar(&c.demo, "demo", demoDrone, "the example to run: drone-delivery, orders (a payment service, for the shop that cmd/orders runs) or none")
	f.StringVar(&c.agents, "agents", "", "directory of your own agents without code (*.yaml): HTTP services and commands, loaded at the start")
	c.engineFlags.flags(f)
	c.sealFlags.flags(f)
	return cmd
}

func (c *devConfig) validate() error {
	if c.demo != demoDrone && c.demo != demoOrders && c.demo != demoNone {
		return usage("--demo %q is not known: %s, %s or %s", c.demo, demoDrone, demoOrders, demoNone)
	}
	if err := c.engineFlags.validate(); err != nil {
		return err
	}
	if err := loopback("--http", c.http); err != nil {
		return err
	}
	if err := loopback("--kafka", c.kafka); err != nil {
		return err
	}
	// On a machine of a production node, an empty engine would take the tasks that were meant for that node.
	if to := os.Getenv("SAGALOG_BROKERS"); to != "" && to != c.kafka {
		return usage("SAGALOG_BROKERS is %q, but `sagalog dev` starts an empty engine with its own broker. `sagalog serve` starts a node on those brokers. To try Sagalog on this machine, unset SAGALOG_BROKERS", to)
	}
	return nil
}

// durability describes which failures accepted tasks survive.
func (c *devConfig) durability() string {
	if c.fsync {
		return "accepted tasks survive Ctrl-C, kill -9 and a power cut: they are on the disk before they are acknowledged (--fsync)"
	}
	return "accepted tasks survive Ctrl-C and kill -9; a power cut may lose the most recent ones (--fsync prevents that)"
}

// loopback refuses an address that other machines can reach: neither the API nor the broker authenticates anyone.
func loopback(flag, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usage("%s %q is not HOST:PORT, such as 127.0.0.1:0", flag, addr)
	}
	if !isLoopback(host) {
		return usage("other machines can reach %s %q, and nobody has to say who they are: use 127.0.0.1", flag, addr)
	}
	return nil
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// dev is a running development engine.
type dev struct {
	process
	cfg  devConfig
	gate *access.Gate // nil: access is off
	// demoToken is the token of the example's producer, if access is on.
	demoToken string
	broker    *embedded.Broker
	cluster   *kafka.Cluster
	keys      *sealing.Keys
	fleet     *dronedelivery.Fleet // the services of the example
	files     fs.FS                // its workflow, and its agents below agents/
	node      *node.Node
	agents    *agent.Connection
	bindings  *bindings
}

func runDev(ctx context.Context, c devConfig) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	d := &dev{cfg: c, process: newProcess(c.quiet), bindings: newBindings()}
	d.bindings.reports = new(reports)
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range []func(context.Context) error{d.readFiles, d.openBroker, d.openFleet, d.openNode, d.applyWorkflows, d.openAgents, d.writeEndpoints} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !c.quiet {
		d.banner(os.Stdout)
	}
	return d.run(ctx)
}

// readFiles reads the files of access, --agents and --workflows before anything is created or applied, and returns the faults of all of them.
func (d *dev) readFiles(ctx context.Context) (err error) {
	if err := d.openTraces(ctx, "dev"); err != nil {
		return err
	}
	if d.gate, err = d.cfg.gate(events.DefaultNamespace, d.log); err != nil {
		return err
	}
	if d.gate != nil {
		d.demoToken = d.gate.Grant("demo", access.Submitter)
	}
	_, err = checkDefinitions(d.cfg.workflows)
	return errors.Join(d.bindings.folder(d.cfg.agents), err)
}

func (d *dev) openBroker(context.Context) error {
	if err := devDirectory(d.cfg.data); err != nil {
		return err
	}
	switch f := spaceOf(d.cfg.data, existing(d.cfg.data)); f.Status {
	case doctor.StatusFail:
		return errors.New(f.String())
	case doctor.StatusWarn:
		d.log.Warn(f.What, "remedy", f.Remedy)
	}
	if err := os.MkdirAll(d.cfg.data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	var err error
	d.broker, err = embedded.Open(embedded.Config{
		Dir: brokerIn(d.cfg.data), LockFile: filepath.Join(d.cfg.data, lockFile), Addr: d.cfg.kafka,
		Fsync: d.cfg.fsync, Logger: d.log,
	})
	var busy *embedded.PortBusyError
	if errors.As(err, &busy) {
		return fmt.Errorf("--kafka: %w", err)
	}
	if err != nil {
		return err
	}
	d.cluster, err = kafka.Connect(d.broker.ClusterConfig())
	return err
}

// devDirectory refuses a directory that `sagalog serve` made, before dev adds a broker to it.
func devDirectory(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil && !hasBroker(dir) {
		return fmt.Errorf("%s is a data directory of `sagalog serve`, and its log is on a Kafka cluster: give another --data", dir)
	}
	return refusePast(dir)
}

func (d *dev) openFleet(context.Context) error {
	if d.cfg.demo == demoNone {
		return nil
	}
	services := dronedelivery.Services()
	d.files = dronedelivery.Files()
	if d.cfg.demo == demoOrders {
		services, d.files = []string{dronedelivery.Payment}, orders.Files()
	}
	var err error
	d.fleet, err = dronedelivery.New(dronedelivery.Config{Dir: filepath.Join(d.cfg.data, "demo"), Addr: "127.0.0.1", Services: services, Log: d.log})
	if err != nil {
		return err
	}
	if err := d.fleet.Listen(); err != nil {
		return err
	}
	env := d.fleet.Env()
	files, err := fs.Sub(d.files, "agents")
	if err != nil {
		return err
	}
	return d.bindings.files(files, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func (d *dev) openNode(ctx context.Context) (err error) {
	if d.keys, err = d.cfg.keys(ctx, d.cluster, events.DefaultNamespace, d.log); err != nil {
		return err
	}
	cfg := node.Config{
		Cluster: d.cluster, Name: "dev", Dir: d.cfg.data, Partitions: d.cfg.partitions, PartitionsSet: d.cfg.partitionsSet,
		HTTP: d.cfg.http, Hosts: d.cfg.hosts, Settings: d.cfg.settings, SettingsSet: d.cfg.settingsSet, Tick: d.cfg.sweep, KeepInputs: d.cfg.keepInputs, Version: version(), Logger: d.log, Registry: d.metrics, Access: d.gate, Traces: d.nodeTraces(), Checkpoints: d.cfg.checkpoints, Keys: d.keys,
	}
	if d.fleet != nil {
		cfg.Demo = &demo{services: d.fleet.Services(), urls: d.fleet.URLs()}
	}
	if cfg.Webhook, err = d.cfg.webhook(d.log); err != nil {
		return err
	}
	secret, err := callbackKeyIn(d.cfg.data)
	if err != nil {
		return err
	}
	if cfg.Callbacks, err = callback.NewKeys(secret); err != nil {
		return err
	}
	if d.node, err = node.Open(ctx, cfg); err != nil {
		return err
	}
	return d.bindings.reports.to("http://"+d.node.Addr(), secret)
}

// applyWorkflows applies the example's workflow and those of --workflows.
func (d *dev) applyWorkflows(ctx context.Context) error {
	a := applier{node: d.node, log: d.log}
	if d.fleet != nil {
		if err := a.file(ctx, d.files, definitionFile{name: "workflow.yaml", place: "workflow.yaml"}); err != nil {
			return err
		}
	}
	return a.folder(ctx, d.cfg.workflows)
}

func (d *dev) openAgents(ctx context.Context) error {
	if len(d.bindings.names()) == 0 {
		return nil
	}
	var err error
	d.agents, err = agent.Attach(ctx, work.Over(d.cluster), d.bindings.registry, agent.Config{
		Instance: "dev", OutputLimit: events.MaxPayloadBytes, Keys: agentKeys(d.keys), Registerer: d.metrics, Trace: d.agentTrace(), Log: d.log,
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

// run works until Ctrl-C. The parts end in the reverse order of their dependencies. The broker, which all of them need, ends last, in
// close.
func (d *dev) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.node.Run(ctx) })
	if d.agents != nil {
		g.Go(func() error { return d.agents.Run(ctx) })
	}
	if d.fleet != nil {
		g.Go(func() error { return d.fleet.Run(ctx) })
	}
	if d.cfg.demo == demoDrone {
		to := client.HTTPConfig{URL: "http://" + d.node.Addr(), Token: d.demoToken, RetryFor: -1}
		g.Go(func() error { return trickle(ctx, to, d.log) })
	}
	if d.cfg.pprof != "" {
		g.Go(func() error { return servePprof(ctx, d.cfg.pprof) })
	}
	err := g.Wait()
	d.node, d.fleet, d.agents = nil, nil, nil // Run has closed them
	return stopped(ctx, err)
}

func (d *dev) close() error {
	var errs []error
	if d.node != nil {
		errs = append(errs, d.node.Close())
	}
	if d.fleet != nil {
		errs = append(errs, d.fleet.Close())
	}
	d.traces.Close()
	d.bindings.close()
	if d.cluster != nil {
		d.cluster.Close()
	}
	if d.broker != nil {
		errs = append(errs, d.broker.Close())
	}
	return errors.Join(errs...)
}
