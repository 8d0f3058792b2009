package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/internal/traces"
	"golang.org/x/sync/errgroup"
)

// process is shared by the parts of a long-running process.
type process struct {
	log     *slog.Logger
	metrics *prometheus.Registry
	traces  *traces.Tracer // nil: none are exported
}

func newProcess(quiet bool) process {
	p := process{log: newLogger(quiet), metrics: prometheus.NewRegistry()}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sagalog_build_info", Help: "1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": version(), "commit": commit(), "go_version": runtime.Version()},
	}, func() float64 { return 1 }))
	return p
}

// serving is a running node.
type serving struct {
	process
	cfg   serveConfig
	reach kafka.ClusterConfig
	// secret is the key of callbacks, or "".
	secret string
	// gate recognizes callers of the API; nil: access is off. tls is that of the API, and peerTLS that of calls to other nodes.
	gate    *access.Gate
	tls     *tls.Config
	peerTLS func() *tls.Config
	unlock  func() error
	cluster *kafka.Cluster
	// keys are nil without --seal-key-file.
	keys     *sealing.Keys
	node     *node.Node
	bindings *bindings
	local    *localCheck
	agents   *agent.Connection
	// metricsAt is the listener for /metrics in a process without an API; nil without --metrics.
	metricsAt net.Listener
	// patience is for all steps of the start together.
	patience *kafka.Patience
	// warned holds the warnings about the cluster that were already logged.
	warned map[string]bool
}

func runServe(ctx context.Context, c serveConfig) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	s := &serving{cfg: c, process: newProcess(c.quiet), bindings: newBindings(), warned: map[string]bool{}}
	s.patience = &kafka.Patience{Within: c.startWithin, Logger: s.log}
	s.local = &localCheck{serveConfig: &s.cfg, starting: true, now: time.Now}
	defer func() { err = errors.Join(err, s.close()) }()
	steps := []func(context.Context) error{s.configure, s.bind, s.look, s.trace, s.connect, s.lockData, s.openNode, s.patient(s.applyWorkflows), s.patient(s.openAgents), s.writeEndpoints}
	if c.roles.agentOnly() {
		steps = []func(context.Context) error{s.configure, s.bind, s.look, s.trace, s.listenMetrics, s.connect, s.patient(s.awaitNamespace), s.patient(s.openAgents)}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return stopped(ctx, err)
		}
	}
	if !c.quiet {
		s.banner(os.Stdout)
	}
	if err := notifyReady(); err != nil { // the variable may come from another service, whose socket is gone
		s.log.Warn("the service manager was not notified that the start is complete; the node works all the same", "error", err,
			"remedy", "if no service manager started this process, unset NOTIFY_SOCKET; otherwise restart the unit, because it still counts as starting")
	}
	return stopped(ctx, s.run(ctx))
}

// patient makes a step repeat while brokers do not answer.
func (s *serving) patient(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return s.patience.Try(ctx, step) }
}

// stopped returns nil if the error only says that the process was asked to stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// configure reads the files of the connection's flags.
func (s *serving) configure(context.Context) (err error) {
	if s.reach, err = s.cfg.member.cluster(s.log); err != nil {
		return err
	}
	if s.gate, err = s.cfg.gate(s.cfg.namespace, s.log); err != nil {
		return s.refuse([]doctor.Finding{accessFault(err)})
	}
	if s.tls, s.peerTLS, err = s.cfg.httpTLS.configs(s.log); err != nil {
		return s.refuse([]doctor.Finding{accessFault(err)})
	}
	if s.secret, err = s.cfg.callbacks.secret(); s.secret != "" {
		s.bindings.reports = new(reports)
	}
	return err
}

// bind reads the files of --agents. It runs before anything is opened that would have to be closed again.
func (s *serving) bind(context.Context) error {
	if !s.cfg.roles.agent {
		return nil
	}
	if err := s.bindings.folder(s.cfg.agents); err != nil {
		return s.refuse([]doctor.Finding{agentsFault(err)})
	}
	if s.bindings.accepts != "" && s.cfg.callbacks.url == "" && !s.cfg.roles.node.API {
		return usage("--callback-url is missing: the service of agent %q reports to the HTTP API, and this process has no role api", s.bindings.accepts)
	}
	if s.cfg.roles.agentOnly() && len(s.bindings.names()) == 0 {
		return fmt.Errorf("--agents: %s holds no *.yaml file, so there is nothing to run", s.cfg.agents)
	}
	return nil
}

// look runs the checks of this machine before anything is created here or on the brokers: a refused start leaves nothing behind.
func (s *serving) look(ctx context.Context) error {
	s.local.workflows()
	s.local.data()
	s.local.access(s.gate)
	s.local.address(ctx, nil)
	s.local.clock()
	s.local.traces()
	return s.refuse(s.local.findings)
}

// trace opens the exporter of traces.
func (s *serving) trace(ctx context.Context) error { return s.openTraces(ctx, s.cfg.node) }

// refuse returns the findings that keep the process from working as an error, and logs the warnings.
func (s *serving) refuse(findings []doctor.Finding) error {
	var fails []doctor.Finding
	for _, f := range findings {
		switch f.Status {
		case doctor.StatusFail:
			fails = append(fails, f)
		case doctor.StatusWarn:
			s.warn(f)
		}
	}
	if len(fails) > 0 {
		return &doctor.PreflightError{Findings: fails}
	}
	return nil
}

// warn logs each warning once, although the cluster is checked twice.
func (s *serving) warn(f doctor.Finding) {
	if !s.warned[f.What] {
		s.warned[f.What] = true
		s.log.Warn(f.What, "remedy", f.Remedy)
	}
}

// lockData takes the lock of the data directory.
func (s *serving) lockData(context.Context) error {
	if err := os.MkdirAll(s.cfg.data, 0o700); err != nil {
		return fmt.Errorf("make the data directory (--data): %w", err)
	}
	var err error
	s.unlock, err = embedded.Lock(filepath.Join(s.cfg.data, lockFile))
	return err
}

const lockFile = "LOCK"

// serveDirectory refuses a directory that `sagalog dev` made, because its state belongs to the log next to it, and a directory
// that holds only files of other programs. Hidden files, and lost+found, do not count.
func serveDirectory(dir string) error {
	if err := refusePast(dir); err != nil {
		return err
	}
	if hasBroker(dir) {
		return fmt.Errorf("%s is a data directory of `sagalog dev`: it holds its own broker (%s), and its state belongs to that",
			dir, brokerIn(dir))
	}
	entries, _ := os.ReadDir(dir) // a directory that cannot be read is reported when it is opened
	foreign := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == "state", name == node.CheckpointsDir, name == endpointsFile:
			return nil
		case name != "lost+found" && !strings.HasPrefix(name, "."):
			foreign = name
		}
	}
	if foreign != "" {
		return fmt.Errorf("%s is not a data directory of sagalog: it holds other files, such as %s", dir, foreign)
	}
	return nil
}

// brokerIn is where a data directory of `sagalog dev` holds its broker.
func brokerIn(dir string) string { return filepath.Join(dir, "broker") }

// hasBroker says whether a directory is a data directory of `sagalog dev`.
func hasBroker(dir string) bool {
	_, err := os.Stat(brokerIn(dir))
	return err == nil
}

// connect checks that this process can do all of its work. It refuses a problem here, and says what to change, instead of failing
// in a loop later.
func (s *serving) connect(ctx context.Context) (err error) {
	if plainPassword(s.reach) {
		s.log.Warn(plainPasswordText, "remedy", plainPasswordRemedy)
	}
	if s.cluster, err = kafka.Connect(s.reach); err != nil {
		return err
	}
	if err := s.preflight(ctx); err != nil {
		return err
	}
	if s.keys, err = s.cfg.keys(ctx, s.cluster, s.cfg.namespace, s.log); err != nil {
		return err
	}
	return s.refuse(s.local.log(ctx, s.cluster))
}

func (s *serving) preflight(ctx context.Context) error {
	need := s.local.need(s.cluster, s.bindings.names())
	need.Warn = s.warn
	return s.patience.Lend(func(left time.Duration) error {
		need.Patience = left
		return doctor.Preflight(ctx, s.cluster, need)
	})
}

func (s *serving) openNode(ctx context.Context) error {
	cfg := node.Config{
		Cluster: s.cluster, Namespace: s.cfg.namespace, Name: s.cfg.node, Dir: s.cfg.data, Roles: s.cfg.roles.node,
		Partitions: s.cfg.partitions, PartitionsSet: s.cfg.partitionsSet, Advertise: s.cfg.advertise, Hosts: s.cfg.hosts,
		Settings: s.cfg.settings, SettingsSet: s.cfg.settingsSet, Tick: s.cfg.sweep, KeepInputs: s.cfg.keepInputs, Version: version(), Logger: s.log, Registry: s.metrics, Patience: s.patience, Traces: s.nodeTraces(), Checkpoints: s.cfg.checkpoints, Keys: s.keys,
	}
	var err error
	if cfg.Webhook, err = s.cfg.webhook(s.log); err != nil {
		return s.refuse([]doctor.Finding{webhookFault(err)})
	}
	if s.cfg.roles.node.API {
		cfg.HTTP, cfg.Access, cfg.TLS, cfg.PeerTLS = s.cfg.http, s.gate, s.tls, s.peerTLS
		if s.secret != "" {
			if cfg.Callbacks, err = callback.NewKeys(s.secret); err != nil {
				return err
			}
		}
	}
	s.node, err = node.Open(ctx, cfg)
	return err
}

func (s *serving) applyWorkflows(ctx context.Context) error {
	return applier{node: s.node, log: s.log}.folder(ctx, s.cfg.workflows)
}

// namespaceEvery is how often agents look for a namespace that does not exist yet.
const namespaceEvery = time.Second

// awaitNamespace lets agents start before the first node, since only nodes create a namespace. Preflight has logged that it is
// missing.
func (s *serving) awaitNamespace(ctx context.Context) error {
	submissions := kafka.Topics{Namespace: s.cfg.namespace}.Submissions()
	for {
		_, err := s.cluster.Partitions(ctx, submissions)
		if err == nil || ctx.Err() != nil || !errors.Is(err, kafka.ErrUnknownTopic) {
			return err
		}
		if !pause.For(ctx, namespaceEvery) {
			return ctx.Err()
		}
	}
}

func (s *serving) openAgents(ctx context.Context) error {
	if len(s.bindings.names()) == 0 {
		return nil
	}
	if s.bindings.accepts != "" {
		if err := s.bindings.reports.to(s.callbackURL(), s.secret); err != nil {
			return err
		}
	}
	// The work topics could not be checked before the namespace existed.
	if err := s.preflight(ctx); err != nil {
		return err
	}
	var err error
	s.agents, err = agent.Attach(ctx, work.Over(s.cluster), s.bindings.registry, agent.Config{
		Namespace: s.cfg.namespace, Instance: s.cfg.node, OutputLimit: events.MaxPayloadBytes, Keys: agentKeys(s.keys), Registerer: s.metrics, Trace: s.agentTrace(), Log: s.log,
	})
	return err
}

func (s *serving) writeEndpoints(context.Context) error {
	return endpoints{HTTP: s.apiURL(), Kafka: strings.Join(s.cluster.Brokers(), ","), Node: s.cfg.node}.write(s.cfg.data)
}

// apiURL is the URL of the API for programs on this machine, or "".
func (s *serving) apiURL() string {
	if s.node == nil || s.node.Addr() == "" {
		return ""
	}
	addr := s.node.Addr()
	if host, port, err := net.SplitHostPort(addr); err == nil && everyAddress(host) {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return s.cfg.httpTLS.scheme() + addr
}

// callbackURL is the URL of the API for services.
func (s *serving) callbackURL() string {
	switch {
	case s.cfg.callbacks.url != "":
		return s.cfg.callbacks.url
	case s.cfg.advertise != "":
		return s.cfg.httpTLS.scheme() + s.cfg.advertise
	}
	return s.apiURL()
}

func (s *serving) banner(w io.Writer) {
	fmt.Fprintf(w, "\nSagalog %s, node %s, is running. Ctrl-C ends it.\n\n", version(), s.cfg.node)
	fmt.Fprintf(w, "  Namespace   %s\n", s.cfg.namespace)
	fmt.Fprintf(w, "  Roles       %s\n", s.cfg.roles)
	fmt.Fprintf(w, "  Brokers     %s\n", strings.Join(s.cluster.Brokers(), ","))
	if api := s.apiURL(); api != "" {
		fmt.Fprintf(w, "  HTTP API    %s          (OpenAPI: %s/openapi.yaml)\n", api, api)
	}
	if names := s.bindings.names(); len(names) > 0 {
		fmt.Fprintf(w, "  Agents      %s\n", strings.Join(names, ","))
	}
	if s.node != nil {
		fmt.Fprintf(w, "  Data        %s\n", s.cfg.data)
	}
	fmt.Fprintln(w)
}

func (s *serving) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.node != nil {
		g.Go(func() error { return s.node.Run(ctx) })
	}
	if s.agents != nil {
		g.Go(func() error { return s.agents.Run(ctx) })
	}
	if s.node == nil && s.keys != nil {
		s.metrics.MustRegister(s.keys.Collector())
		g.Go(func() error { return s.keys.Run(ctx) })
	}
	if s.metricsAt != nil {
		g.Go(func() error { return serveMetrics(ctx, s.metricsAt, s.process.metrics, s.cfg.hosts) })
	}
	if s.cfg.pprof != "" {
		g.Go(func() error { return servePprof(ctx, s.cfg.pprof) })
	}
	err := g.Wait()
	s.node = nil // Run has closed it
	return err
}

// close releases the lock last, so that the next process finds everything at rest.
func (s *serving) close() error {
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	s.traces.Close()
	s.bindings.close()
	if s.metricsAt != nil {
		_ = s.metricsAt.Close() // it is closed already if it was served
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.unlock != nil {
		errs = append(errs, s.unlock())
	}
	return errors.Join(errs...)
}
