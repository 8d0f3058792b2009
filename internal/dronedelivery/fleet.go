package dronedelivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// stopGrace is how long calls under way may take to end. They do no more than one write each, so the grace is used up only
	// by a caller that stalls in the middle of its request, or that has connected and sends nothing.
	stopGrace = time.Second
	// headerTimeout frees connections that never send a request. There is no limit on answering, since a fault
	// may make a service hang.
	headerTimeout = 10 * time.Second
)

// Fleet is the services as one component: New, Listen, Run.
type Fleet struct {
	cfg  Config
	stop chan struct{}

	// The caller of Listen owns the fields below, and then Run does.
	lock      *flock.Flock
	listeners []net.Listener
	services  []*service

	// Only Listen writes urls, so it may be read while Run closes the rest.
	urls map[string]string
}

// New checks the configuration and reports all mistakes in it at once. It opens nothing.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("drone delivery services: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{cfg: cfg, stop: make(chan struct{})}, nil
}

// Listen locks the directory, reads the ledgers and binds all addresses, so that URLs are known and connections wait for Run.
// After an error nothing stays locked or open. Call it only once. A Fleet that listens must be run or closed.
func (f *Fleet) Listen() error {
	if err := f.listen(); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

func (f *Fleet) listen() (err error) {
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make directory of ledgers: %w", err)
	}
	if f.lock, err = lockDir(f.cfg.Dir); err != nil {
		return err
	}
	for i, name := range f.cfg.services() {
		l, err := net.Listen("tcp", f.cfg.address(i))
		if err != nil {
			return fmt.Errorf("%s service cannot listen on %s (choose another port, or 0 for a free one): %w", name, f.cfg.address(i), err)
		}
		f.listeners = append(f.listeners, l)
	}
	for _, name := range f.cfg.services() {
		s, err := newService(name, f.cfg, f.stop)
		if err != nil {
			return fmt.Errorf("%s service: %w", name, err)
		}
		f.services = append(f.services, s)
	}
	f.urls = make(map[string]string, len(f.listeners))
	for i, l := range f.listeners {
		f.urls[f.cfg.services()[i]] = "http://" + l.Addr().String()
	}
	return nil
}

// lockDir locks the directory for this process: two writers of one ledger would each remember half of it. The kernel releases
// the lock when the process ends, even by kill -9.
func lockDir(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, "services.lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		err = fmt.Errorf("another process runs the services on %s (it holds %s)", dir, lock.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("lock the ledgers: %w", err)
	}
	return lock, nil
}

// Services returns the names of the services that it runs, in the order of their ports.
func (f *Fleet) Services() []string { return slices.Clone(f.cfg.services()) }

// URLs returns the base URL of each service. It is empty before Listen.
func (f *Fleet) URLs() map[string]string { return maps.Clone(f.urls) }

// Env returns the URLs under the names by which the agent bindings look for them (PACKAGE_URL).
func (f *Fleet) Env() map[string]string {
	env := make(map[string]string, len(f.urls))
	for name, url := range f.urls {
		env[EnvName(name)] = url
	}
	return env
}

// Run serves until ctx ends, then lets the calls under way end, cuts those that hang, and closes everything. It listens first
// if Listen was not called. It returns nil after a clean stop. Call it only once.
func (f *Fleet) Run(ctx context.Context) error {
	if f.services == nil {
		if err := f.Listen(); err != nil {
			return err
		}
	}
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	servers := make([]*http.Server, len(f.services))
	for i, s := range f.services {
		servers[i] = &http.Server{
			Handler:           guardHost(s),
			ReadHeaderTimeout: headerTimeout,
			ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		}
		wg.Go(func() {
			if err := servers[i].Serve(f.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				fail(fmt.Errorf("%s service: %w", s.kind.name, err))
			}
		})
	}
	<-serving.Done()
	close(f.stop)
	shutdown(context.WithoutCancel(ctx), servers)
	wg.Wait()
	err := f.Close()
	if ctx.Err() == nil {
		err = errors.Join(context.Cause(serving), err)
	}
	return err
}

// guardHost refuses a Host that is neither an IP address nor localhost: a web site whose name was pointed at 127.0.0.1
// could otherwise break the services from a visitor's browser.
func guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !strings.EqualFold(host, "localhost") && net.ParseIP(strings.Trim(host, "[]")) == nil {
			refused(refusal(http.StatusMisdirectedRequest, "the services of the example are called by an IP address or as localhost")).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// shutdown ends the servers concurrently, so that one that stalls does not use up the grace of the others.
func shutdown(ctx context.Context, servers []*http.Server) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	var wg sync.WaitGroup
	for _, srv := range servers {
		wg.Go(func() {
			if srv.Shutdown(ctx) != nil {
				_ = srv.Close()
			}
		})
	}
	wg.Wait()
}

// Close releases everything that Listen acquired. It is for a Fleet that listens and will not run. Run closes the Fleet itself.
func (f *Fleet) Close() error {
	var errs []error
	for _, l := range f.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, s := range f.services {
		s.late.Wait() // at most lateMax
		errs = append(errs, s.ledger.file.Close())
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Unlock())
	}
	f.listeners, f.services, f.lock = nil, nil, nil
	return errors.Join(errs...)
}
