package api

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
)

// Config says what the API serves and whom it asks. What has no default is required.
type Config struct {
	// Addr is where to listen; default DefaultAddr. Port 0 takes a free one.
	Addr string
	// Hosts are names by which clients may call us beside loopback, while we listen on loopback. Behind a proxy on the
	// same machine it is the proxy's name.
	Hosts []string

	Namespace string
	// NamespaceID tells this namespace from others of its name, so that nodes of two clusters never answer for each
	// other; default Namespace.
	NamespaceID string
	// Node is this node's name, by which others call it.
	Node       string
	Version    string
	Partitions int32
	// SubmissionBytes limits a submission; default that of events.DefaultSettings.
	SubmissionBytes int
	// DefinitionBytes limits a definition; default DefaultDefinitionBytes.
	DefinitionBytes int

	Tasks       Tasks
	History     History
	Rejections  Rejections
	Definitions Definitions
	Appender    Appender
	Cluster     Cluster
	DeadLetters DeadLetters
	// Demo is nil where there is no example to break.
	Demo Demo
	// Ready returns nil when the partitions owned here have caught up, else what is missing.
	Ready func() error

	// Registerer takes our metrics, Gatherer gives all metrics of the process for /metrics.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// Logger is for what an operator must know; default none.
	Logger *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

const (
	// DefaultAddr is reachable from this machine only: the API has no authentication yet.
	DefaultAddr = "127.0.0.1:8642"
	// DefaultDefinitionBytes leaves a definition room for inlined schemas and, as a fact, for defaults filled in, below
	// the 2 MiB of a record.
	DefaultDefinitionBytes = 1 << 20
	// MaxLimit bounds a page: a thousand tasks of the usual size are a few megabytes.
	MaxLimit = 1000
	// DefaultLimit fills a screen.
	DefaultLimit = 100
	// MaxWait bounds ?wait=, below the idle limits of common proxies.
	MaxWait = 60 * time.Second
	// DefaultTokenWait is how long a read with a token waits: an idle engine judges an input within milliseconds, and a
	// person gives up after a few seconds.
	DefaultTokenWait = 5 * time.Second
)

func (c *Config) setDefaults() {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.SubmissionBytes == 0 {
		c.SubmissionBytes = events.DefaultSettings().SubmissionBytes
	}
	if c.DefinitionBytes == 0 {
		c.DefinitionBytes = DefaultDefinitionBytes
	}
	if c.NamespaceID == "" {
		c.NamespaceID = c.Namespace
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (c *Config) validate() error {
	var errs []error
	required := func(there bool, name string) {
		if !there {
			errs = append(errs, errors.New(name+" is required"))
		}
	}
	required(c.Namespace != "", "Namespace")
	required(c.Partitions > 0, "Partitions")
	required(c.Tasks != nil, "Tasks")
	required(c.History != nil, "History")
	required(c.Rejections != nil, "Rejections")
	required(c.Definitions != nil, "Definitions")
	required(c.Appender != nil, "Appender")
	required(c.Cluster != nil, "Cluster")
	required(c.DeadLetters != nil, "DeadLetters")
	required(c.Registerer != nil, "Registerer")
	required(c.Gatherer != nil, "Gatherer")
	return errors.Join(errs...)
}
