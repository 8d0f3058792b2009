package api

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/callback"
)

// Config says what the API serves and which parts of the engine it calls. A field without a default is required.
type Config struct {
	// Addr is where to listen; default DefaultAddr. Port 0 takes a free one.
	Addr string
	// Listen opens Addr; default: TCP. Tests in virtual time listen in memory.
	Listen func(addr string) (net.Listener, error)
	// Hosts are the names by which clients may call the API, besides localhost and IP addresses: of this machine, or of a proxy
	// in front of it.
	Hosts []string

	Namespace string
	// NamespaceID distinguishes this namespace from others with the same name, so that nodes of two clusters never answer for
	// each other; default Namespace.
	NamespaceID string
	// Node is this node's name, by which other nodes know it.
	Node       string
	Version    string
	Partitions int32
	// SubmissionBytes limits a submission; default the limit in events.DefaultSettings. SubmissionLimit, if set, returns the limit as of
	// now, and SubmissionBytes is only documented.
	SubmissionBytes int
	SubmissionLimit func() int
	// ReplyTopic returns why no task can be answered in a topic, as of now; by default none can.
	ReplyTopic func(topic string) error
	// DefinitionBytes limits a definition; default DefaultDefinitionBytes.
	DefinitionBytes int

	// Traces makes spans of submissions; nil: none.
	Traces Traces

	Tasks       Tasks
	Lists       Lists
	Inputs      Inputs
	History     History
	Rejections  Rejections
	Workflows   Workflows
	Deletions   Deletions
	Definitions Definitions
	Settings    Settings
	Losses      Losses
	Pauses      AgentPauses
	Jobs        Jobs
	Schedules   Schedules
	Limits      Limits
	NamedLimits NamedLimits
	Appender    Appender
	Cluster     Cluster
	Offers      Offers
	DeadLetters DeadLetters
	// Callbacks check the tickets of callbacks; nil refuses all of them.
	Callbacks *callback.Keys
	// Keys seals inputs and opens answers; nil: what is sealed stays so.
	Keys Keys
	// Access recognizes callers; nil: access is off, and everyone who reaches the API may do everything.
	Access *access.Gate
	// TLS is that of the API; nil: it speaks plain HTTP.
	TLS *tls.Config
	// PeerTLS returns that of the next connection to another node; nil: they speak plain HTTP.
	PeerTLS func() *tls.Config
	// Changes says what changes in the store, for streams.
	Changes Changes
	// Stats knows what happened lately.
	Stats Stats
	// Nodes knows the nodes.
	Nodes Nodes
	// Acts knows what operators did.
	Acts Acts
	// Counts counts tasks.
	Counts Counts
	Alerts Alerts
	// Checkpoints makes copies of the state of this node; nil refuses.
	Checkpoints Checkpoints
	// Page serves GET requests at paths that are not the API's. If it is nil, they are answered 404.
	Page http.Handler
	// Demo is nil unless the example runs.
	Demo Demo
	// Ready returns nil when the partitions owned here have caught up, otherwise an error that says what is missing.
	Ready func() error
	// Delayed says which effects of the partitions owned here wait for brokers that do not take them.
	Delayed func() []string

	// Connections and Streams bound the connections and the histories that are followed at once; 4,096 and 1,000 if not given. More
	// connections wait, and more streams are answered 503.
	Connections, Streams int
	// LiveStreams bounds the open streams about the whole namespace; DefaultLiveStreams if not given.
	LiveStreams int

	// Registerer takes our metrics. Gatherer provides all metrics of the process for /metrics.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// Logger logs for an operator; the default discards everything.
	Logger *slog.Logger
	// Past is the moment that is shown, if this is a copy of the past: then it can only be read. Now should return the same.
	Past events.Instant
	// Now is the clock; default time.Now.
	Now func() time.Time
}

const (
	// DefaultAddr is reachable from this machine only, where access may be off.
	DefaultAddr = "127.0.0.1:8642"
	// DefaultDefinitionBytes leaves room for inlined schemas. With its defaults filled in, the definition must still
	// fit into the 2 MiB of a fact's record.
	DefaultDefinitionBytes = 1 << 20
	// MaxLimit bounds a page: a thousand tasks of the usual size are a few megabytes.
	MaxLimit = 1000
	// DefaultLimit fills a screen.
	DefaultLimit = 100
	// MaxWait bounds ?wait=, below the idle limits of common proxies.
	MaxWait = 60 * time.Second
	// DefaultTokenWait is how long a read with a token waits: an idle engine judges an input within milliseconds, and people
	// give up after a few seconds.
	DefaultTokenWait = 5 * time.Second
)

func (c *Config) setDefaults() {
	c.Addr = cmp.Or(c.Addr, DefaultAddr)
	c.SubmissionBytes = cmp.Or(c.SubmissionBytes, events.DefaultSettings().SubmissionBytes)
	if c.SubmissionLimit == nil {
		limit := c.SubmissionBytes
		c.SubmissionLimit = func() int { return limit }
	}
	if c.ReplyTopic == nil {
		settings := events.DefaultSettings()
		c.ReplyTopic = func(topic string) error { return settings.CheckReplyTopic(c.Namespace, topic) }
	}
	c.DefinitionBytes = cmp.Or(c.DefinitionBytes, DefaultDefinitionBytes)
	c.NamespaceID = cmp.Or(c.NamespaceID, c.Namespace)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Connections, c.Streams = cmp.Or(c.Connections, 4096), cmp.Or(c.Streams, 1000)
	c.LiveStreams = cmp.Or(c.LiveStreams, DefaultLiveStreams)
	if c.Listen == nil {
		c.Listen = listen
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	if c.Delayed == nil {
		c.Delayed = func() []string { return nil }
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
	required(c.Lists != nil, "Lists")
	required(c.Changes != nil, "Changes")
	required(c.Stats != nil, "Stats")
	required(c.Acts != nil, "Acts")
	required(c.Nodes != nil, "Nodes")
	required(c.Inputs != nil, "Inputs")
	required(c.History != nil, "History")
	required(c.Rejections != nil, "Rejections")
	required(c.Workflows != nil, "Workflows")
	required(c.Deletions != nil, "Deletions")
	required(c.Definitions != nil, "Definitions")
	required(c.Settings != nil, "Settings")
	required(c.Losses != nil, "Losses")
	required(c.Pauses != nil, "Pauses")
	required(c.Jobs != nil, "Jobs")
	required(c.Schedules != nil, "Schedules")
	required(c.Limits != nil, "Limits")
	required(c.NamedLimits != nil, "NamedLimits")
	required(c.Appender != nil, "Appender")
	required(c.Cluster != nil, "Cluster")
	required(c.Offers != nil, "Offers")
	required(c.DeadLetters != nil, "DeadLetters")
	required(c.Alerts != nil, "Alerts")
	required(c.Registerer != nil, "Registerer")
	required(c.Gatherer != nil, "Gatherer")
	return errors.Join(errs...)
}

func (c *Config) inputTopic(in events.Input) string { return c.Namespace + "." + string(in) }
