package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/internal/repeats"
	"golang.org/x/sync/semaphore"
)

// The limits of a connection.
const (
	// headerTimeout ends a client that sends its headers byte by byte.
	headerTimeout = 5 * time.Second
	// idleTimeout is above the minute after which common clients and proxies close idle connections themselves.
	idleTimeout = 2 * time.Minute
	// writeTimeout bounds an answer from its request's headers on; it includes MaxWait. Streams set their own.
	writeTimeout = 2*time.Minute + MaxWait
	// maxHeaderBytes leaves room for a task ID of 255 bytes percent-encoded several times, and for proxies' headers.
	maxHeaderBytes = 32 << 10
	// stopTimeout bounds a graceful stop; a request that is not answered by then is cut off, and its client asks again.
	stopTimeout = 3 * time.Second
)

// Server serves the API. Listen, then Run.
type Server struct {
	cfg         Config
	metrics     *metrics
	log         logger
	often       logger // what anyone can cause
	life        lifetime
	guard       *guard
	proxy       *proxy.Proxy
	submissions *submissions
	handler     http.Handler
	listener    net.Listener
}

// lifetime ends when a stop begins: streams and waits end with it; everything else is finished.
type lifetime struct {
	stopping context.Context
	stop     context.CancelFunc
}

// until returns a context that also ends when a stop begins, for requests that may take long.
func (l lifetime) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(l.stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}

// New builds the API. It starts nothing.
func New(cfg Config) (*Server, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the API: %w", err)
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register the API's metrics: %w", err)
	}
	s := &Server{cfg: cfg, metrics: m, log: logger{cfg.Logger}, often: logger{repeats.Limited(cfg.Logger)}, guard: newGuard(cfg.Hosts)}
	s.life.stopping, s.life.stop = context.WithCancel(context.Background())
	passed := proxy.Config{
		Router: cfg.Cluster, Partitions: cfg.Partitions, NamespaceID: cfg.NamespaceID, Node: cfg.Node, Stopping: s.life.stopping,
		Registerer: cfg.Registerer, Logger: cfg.Logger, TLS: cfg.PeerTLS,
		Refuse: func(w http.ResponseWriter, r *http.Request, partitions ...int32) {
			writeProblem(w, r, takeoverProblem(partitions...))
		},
	}
	if cfg.Access != nil {
		passed.Sign = cfg.Access.Sign
	}
	if s.proxy, err = proxy.New(passed); err != nil {
		return nil, fmt.Errorf("register the API's metrics: %w", err)
	}
	s.handler = s.routes()
	return s, nil
}

// part serves the routes of one subject.
type part interface{ register(api huma.API) }

// parts builds the parts of the API.
func (s *Server) parts() []part {
	c := &s.cfg
	source := "/" + c.Namespace + "/api/" + c.Node
	producer := &producer{appender: c.Appender, log: logger{repeats.Limited(c.Logger)}}
	documents := documents{definitions: c.Definitions, tasks: c.Tasks, cluster: c.Cluster, offers: c.Offers, pauses: c.Pauses, nodes: c.Nodes, keys: c.Keys, partitions: c.Partitions, namespaceID: c.NamespaceID, node: c.Node, now: c.Now, past: c.Past != 0, log: s.log}
	lists := &lists{list: c.Lists, documents: documents, proxy: s.proxy, router: c.Cluster, partitions: c.Partitions, room: newListRoom(), now: c.Now, log: s.log}
	workflows := &workflows{workflows: c.Workflows, deletions: c.Deletions, schedules: c.Schedules, definitions: c.Definitions, offers: c.Offers, lists: lists, limit: c.DefinitionBytes, log: s.log}
	s.submissions = &submissions{
		definitions: c.Definitions, workflows: workflows, tasks: c.Tasks, router: c.Cluster, producer: producer,
		topic: c.inputTopic("submissions"), source: []byte(source), partitions: c.Partitions, limit: c.SubmissionLimit, replies: c.ReplyTopic, keys: c.Keys, now: c.Now,
		lines: s.metrics.lines, traces: c.Traces, disk: semaphore.NewWeighted(queuesDisk), log: s.log,
	}
	limits := &permitLimits{documents: documents, limits: c.Limits, named: c.NamedLimits, proxy: s.proxy}
	counts := &counts{lists, c.Counts}
	letters := &deadLetters{letters: c.DeadLetters, submissions: s.submissions, producer: producer, cfg: c, log: s.log, looks: make(chan struct{}, looksAtOnce)}
	list := []part{
		s.submissions,
		&tasks{
			tasks: c.Tasks, inputs: c.Inputs, rejections: c.Rejections, letters: letters, documents: documents,
			past: newPast(c.History, documents, c.Partitions, s.log), partitions: c.Partitions, life: s.life, log: s.log,
		},
		lists, counts, &alerts{counts, c.Alerts}, s.live(lists), &stats{c.Stats, s.proxy, lists, c.Now}, &acts{c.Acts, c.Stats, s.proxy}, &nodes{c.Nodes, c.Stats, c.Node, s.proxy},
		&requests{
			tasks: c.Tasks, inputs: c.Inputs, rejections: c.Rejections, definitions: c.Definitions, keys: c.Keys, producer: producer, topic: c.inputTopic("reports"), source: source,
			partitions: c.Partitions, now: c.Now, life: s.life, log: s.log,
		},
		&reports{
			keys: c.Callbacks, namespace: c.NamespaceID, producer: producer, topic: c.inputTopic("reports"), source: source, partitions: c.Partitions, now: c.Now, log: s.log,
			often: logger{repeats.Limited(c.Logger)},
		},
		&histories{tasks: c.Tasks, history: c.History, keys: c.Keys, partitions: c.Partitions, streams: s.metrics.streams, room: make(chan struct{}, c.Streams), life: s.life, log: s.log},
		workflows,
		&settings{settings: c.Settings, namespace: c.Namespace, log: s.log},
		&losses{losses: c.Losses, partitions: c.Partitions, log: s.log},
		&schedules{
			schedules: c.Schedules, tasks: c.Tasks, inputs: c.Inputs, rejections: c.Rejections, producer: producer, topic: c.inputTopic("reports"), source: source,
			partitions: c.Partitions, now: c.Now, life: s.life, log: s.log,
		},
		&jobs{jobs: c.Jobs, lists: lists, keys: c.Keys, now: c.Now, log: s.log},
		&limitRequests{
			tasks: c.Tasks, named: c.NamedLimits, workflows: c.Workflows, inputs: c.Inputs, rejections: c.Rejections, producer: producer, topic: c.inputTopic("reports"), source: source,
			partitions: c.Partitions, now: c.Now, life: s.life, log: s.log,
		},
		limits, &namedLimits{limits}, whoami{c.Past != 0},
		&checkpoints{c.Checkpoints, c.Node, s.log},
		&agentPauses{pauses: c.Pauses, cluster: c.Cluster, offers: c.Offers, workflows: workflows, log: s.log},
		&status{cfg: c, proxy: s.proxy, log: s.log},
		letters,
	}
	if c.Demo != nil {
		list = append(list, &demo{demo: c.Demo, log: s.log})
	}
	return list
}

// Listen takes the address. It returns a *PortBusyError when it is taken.
func (s *Server) Listen() error {
	l, err := s.cfg.Listen(s.cfg.Addr)
	if err != nil {
		return err
	}
	s.listener = l
	return nil
}

// Addr returns the address that Listen took, such as "127.0.0.1:8642".
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Run serves until ctx ends, then stops within stopTimeout: it takes no new requests, ends streams and waits, and
// answers the requests that are under way. It calls Listen if that was not done.
func (s *Server) Run(ctx context.Context) error {
	defer s.proxy.Close()
	defer s.life.stop()
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig:         s.cfg.TLS,
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	srv.Protocols.SetHTTP1(true) // with TLS as without
	served := make(chan error, 1)
	go func() {
		l := &boundedListener{Listener: s.listener, room: make(chan struct{}, s.cfg.Connections), log: s.cfg.Logger}
		if s.cfg.TLS != nil {
			served <- srv.ServeTLS(l, "", "")
			return
		}
		served <- srv.Serve(l)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	s.life.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close()
	}
	<-served
	return nil
}
