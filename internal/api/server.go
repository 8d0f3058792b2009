package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/sagalog/sagalog/events"
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
	// stopTimeout bounds a graceful stop; what is not answered then is cut off, and its client asks again.
	stopTimeout = 3 * time.Second
)

// PortBusyError is returned by Listen when something else listens on the address.
type PortBusyError struct{ Addr string }

func (e *PortBusyError) Error() string {
	return fmt.Sprintf("%s is in use: stop what listens there, or choose another address with --http (port 0 takes a free one)", e.Addr)
}

// Server serves the API. Listen, then Run.
type Server struct {
	cfg     Config
	metrics *metrics
	handler http.Handler
	guard   *guard
	// forwarder passes to other nodes what is about their partitions.
	forwarder *forwarder

	// submissionsTopic and sourceValue are in each record of a submission.
	submissionsTopic string
	sourceValue      []byte
	// waiters are of this server and not of the process, since a timer must not leave a testing/synctest bubble.
	waiters  sync.Pool
	patience patience

	// stopping ends when a stop begins: streams and waits end with it, everything else is finished.
	stopping context.Context
	stop     context.CancelFunc

	listener net.Listener
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
	s := &Server{cfg: cfg, metrics: m, submissionsTopic: cfg.Namespace + "." + string(events.Submissions), waiters: sync.Pool{New: newWaiter}}
	s.sourceValue = []byte(s.source())
	s.forwarder = newForwarder(&s.cfg, m)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.guard = newGuard(cfg.Hosts)
	if s.handler, err = s.routes(); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler returns the whole API, for a server of the caller's own.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen takes the address. It returns a *PortBusyError when it is taken.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.cfg.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortBusyError{Addr: s.cfg.Addr}
	}
	if err != nil {
		return fmt.Errorf("listen for the API (--http %s): %w", s.cfg.Addr, err)
	}
	s.listener = l
	s.guard.listensOn(l.Addr())
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
// answers what is under way. It calls Listen if nobody did.
func (s *Server) Run(ctx context.Context) error {
	defer s.forwarder.close()
	defer s.stop()
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
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(&tellingListener{Listener: s.listener, log: s.cfg.Logger}) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close()
	}
	<-served
	return nil
}

// untilStop returns a context that also ends when a stop begins, for what would wait long.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}
