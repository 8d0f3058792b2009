package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"golang.org/x/sync/errgroup"
)

// process is what every part of a long-running process is given.
type process struct {
	log     *slog.Logger
	metrics *prometheus.Registry
}

func newProcess(quiet bool) process {
	p := process{log: newLogger(quiet), metrics: prometheus.NewRegistry()}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

// serving is a running node.
type serving struct {
	process
	cfg      serveConfig
	reach    kafka.ClusterConfig
	unlock   func() error
	cluster  *kafka.Cluster
	node     *node.Node
	bindings *bindings
	local    *localCheck
	agents   *agent.Connection
	// warned is what was said of the cluster already.
	warned map[string]bool
}

func runServe(ctx context.Context, c serveConfig) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	s := &serving{cfg: c, process: newProcess(c.quiet), bindings: newBindings(), warned: map[string]bool{}}
	s.local = &localCheck{serveConfig: &s.cfg, starting: true, now: time.Now}
	defer func() { err = errors.Join(err, s.close()) }()
	steps := []func(context.Context) error{s.configure, s.bind, s.look, s.connect, s.lockData, s.openNode, s.applyWorkflows, s.openAgents, s.writeEndpoints}
	if c.roles.agentOnly() {
		steps = []func(context.Context) error{s.configure, s.bind, s.look, s.connect, s.awaitNamespace, s.openAgents}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return stopped(ctx, err)
		}
	}
	if !c.quiet {
		s.banner(os.Stdout)
	}
	return stopped(ctx, s.run(ctx))
}

// stopped makes the end that was asked for no error.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// configure reads the files of the connection's flags.
func (s *serving) configure(context.Context) (err error) {
	s.reach, err = s.cfg.member.cluster(s.log)
	return err
}

// bind reads the files of --agents, before anything is opened that would have to be closed again.
func (s *serving) bind(context.Context) error {
	if !s.cfg.roles.agent {
		return nil
	}
	if err := s.bindings.folder(s.cfg.agents); err != nil {
		return s.refuse([]kafka.Finding{agentsFault(err)})
	}
	if s.cfg.roles.agentOnly() && len(s.bindings.names()) == 0 {
		return fmt.Errorf("--agents: %s holds no *.yaml file, so there is nothing to run", s.cfg.agents)
	}
	return nil
}

// look refuses what this machine lacks before anything is made here or on the brokers: a refused start leaves nothing behind.
func (s *serving) look(context.Context) error {
	s.local.workflows()
	s.local.data()
	s.local.address()
	s.local.clock()
	return s.refuse(s.local.findings)
}

// refuse errors with the findings that keep a process from its work, and logs the warnings.
func (s *serving) refuse(findings []kafka.Finding) error {
	var fails []kafka.Finding
	for _, f := range findings {
		switch f.Status {
		case kafka.StatusFail:
			fails = append(fails, f)
		case kafka.StatusWarn:
			s.warn(f)
		}
	}
	if len(fails) > 0 {
		return &kafka.PreflightError{Findings: fails}
	}
	return nil
}

// warn tells each thing once: the cluster is looked at twice.
func (s *serving) warn(f kafka.Finding) {
	if !s.warned[f.What] {
		s.warned[f.What] = true
		s.log.Warn(f.What, "remedy", f.Remedy)
	}
}

// lockData makes the data directory ours alone.
func (s *serving) lockData(context.Context) error {
	if err := os.MkdirAll(s.cfg.data, 0o700); err != nil {
		return fmt.Errorf("make the data directory (--data): %w", err)
	}
	var err error
	s.unlock, err = kafka.Lock(filepath.Join(s.cfg.data, lockFile))
	return err
}

const lockFile = "LOCK"

// serveDirectory refuses a directory that `sagalog dev` made: its state belongs to the log beside it.
func serveDirectory(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "broker")); err == nil {
		return fmt.Errorf("%s is a data directory of `sagalog dev`: it holds a broker of its own (%s), and its state belongs to that",
			dir, filepath.Join(dir, "broker"))
	}
	return nil
}

// connect looks whether everything that this process is to do can be done: what cannot be is refused here, with what to
// change, and does not fail later in a loop.
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
	return s.refuse(s.local.log(ctx, s.cluster))
}

func (s *serving) preflight(ctx context.Context) error {
	need := s.local.need(s.cluster, s.bindings.names())
	need.Warn = s.warn
	return kafka.Preflight(ctx, s.cluster, need)
}

func (s *serving) openNode(ctx context.Context) error {
	cfg := node.Config{
		Cluster: s.cluster, Namespace: s.cfg.namespace, Name: s.cfg.node, Dir: s.cfg.data, Roles: s.cfg.roles.node,
		Partitions: s.cfg.partitions, PartitionsSet: s.cfg.partitionsSet, Advertise: s.cfg.advertise,
		Settings: s.cfg.settings, Tick: s.cfg.sweep, Version: version(), Logger: s.log, Registry: s.metrics,
	}
	if s.cfg.roles.node.API {
		cfg.HTTP = s.cfg.http
	}
	var err error
	s.node, err = node.Open(ctx, cfg)
	return err
}

const (
	exposedText   = "the HTTP API is reached from other machines and has no authentication yet"
	exposedRemedy = "let only those reach it who may do everything, or listen on 127.0.0.1 (--http)"
)

func (s *serving) applyWorkflows(ctx context.Context) error {
	return applier{node: s.node, log: s.log}.folder(ctx, s.cfg.workflows)
}

// namespaceEvery is how often agents look for a namespace that is not there yet.
const namespaceEvery = time.Second

// awaitNamespace lets agents start before the first node: only nodes make a namespace. That there is none yet was said
// by preflight.
func (s *serving) awaitNamespace(ctx context.Context) error {
	submissions := kafka.Topics{Namespace: s.cfg.namespace}.Submissions()
	for {
		_, err := s.cluster.Partitions(ctx, submissions)
		if err == nil || ctx.Err() != nil || !errors.Is(err, kafka.ErrUnknownTopic) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(namespaceEvery):
		}
	}
}

func (s *serving) openAgents(ctx context.Context) error {
	if len(s.bindings.names()) == 0 {
		return nil
	}
	// The topics of work could not be looked at before there was a namespace.
	if err := s.preflight(ctx); err != nil {
		return err
	}
	var err error
	s.agents, err = agent.Attach(ctx, s.cluster, s.bindings.registry, agent.Config{
		Namespace: s.cfg.namespace, Instance: s.cfg.node, OutputLimit: s.cfg.settings.PayloadBytes, Registerer: s.metrics, Log: s.log,
	})
	return err
}

func (s *serving) writeEndpoints(context.Context) error {
	return endpoints{HTTP: s.apiURL(), Kafka: strings.Join(s.cluster.Brokers(), ","), Node: s.cfg.node}.write(s.cfg.data)
}

// apiURL is where the API is for programs on this machine, "" where none is served.
func (s *serving) apiURL() string {
	if s.node == nil || s.node.Addr() == "" {
		return ""
	}
	addr := s.node.Addr()
	if host, port, err := net.SplitHostPort(addr); err == nil && everyAddress(host) {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + addr
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
	if s.cfg.pprof != "" {
		g.Go(func() error { return servePprof(ctx, s.cfg.pprof) })
	}
	err := g.Wait()
	s.node = nil // it has closed itself
	return err
}

// close gives the lock back last: whoever takes it next finds everything at rest.
func (s *serving) close() error {
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	s.bindings.close()
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.unlock != nil {
		errs = append(errs, s.unlock())
	}
	return errors.Join(errs...)
}
