package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// KafkaConfig says how to reach the log. No setting seals content: see Kafka.
type KafkaConfig struct {
	// Brokers are host:port of some brokers.
	Brokers []string
	// Namespace is the engine's namespace; default "sagalog".
	Namespace string
	// TLS is nil for plain text.
	TLS *tls.Config
	// SASLMechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for no authentication.
	SASLMechanism, User, Password string
	// Log takes a line that says what the client is connected to, and warnings about the connection. Default: discarded.
	Log *slog.Logger
}

// Kafka connects to the brokers of an engine of the default namespace.
//
// Over Kafka, the inputs of submissions and the payloads of signals are in clear text in <ns>.submissions, also if the nodes seal (--seal-key-file): only
// a node seals, when it takes what comes over HTTP. So submit what has to be sealed by HTTP or Open, or restrict who may read that topic.
// docs/encryption.md has the details.
func Kafka(ctx context.Context, brokers ...string) (*Client, error) {
	return KafkaWith(ctx, KafkaConfig{Brokers: brokers})
}

// KafkaWith connects to the log of an engine. It returns an error if no broker answers before ctx ends, or if the namespace does
// not exist: only the engine creates topics.
func KafkaWith(ctx context.Context, cfg KafkaConfig) (*Client, error) {
	c := kafka.ClusterConfig{Brokers: cfg.Brokers, TLS: cfg.TLS, ClientID: "sagalog-client", Role: "producer", Logger: cfg.Log}
	if cfg.SASLMechanism != "" {
		c.SASL = &kafka.SASL{Mechanism: cfg.SASLMechanism, User: cfg.User, Password: cfg.Password}
	}
	cluster, err := kafka.Connect(c)
	if err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	w, err := newKafkaWay(ctx, cluster, cfg.Namespace)
	if err != nil {
		cluster.Close()
		return nil, err
	}
	if cfg.Log != nil {
		cfg.Log.Info("client is connected", "brokers", cfg.Brokers, "topic", w.topic, "partitions", w.partitions, "version", kafka.Version())
	}
	return &Client{way: w}, nil
}

// kafkaWay produces to <ns>.submissions.
type kafkaWay struct {
	cluster    *kafka.Cluster
	producer   *kafka.Producer
	topic      string
	source     []byte
	partitions int32
}

func newKafkaWay(ctx context.Context, cluster *kafka.Cluster, namespace string) (*kafkaWay, error) {
	if namespace == "" {
		namespace = events.DefaultNamespace
	}
	if err := cluster.Ping(ctx); err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	w := &kafkaWay{cluster: cluster, topic: kafka.Topics{Namespace: namespace}.Submissions(), source: []byte("/" + namespace + "/client")}
	var err error
	if w.partitions, err = cluster.Partitions(ctx, w.topic); err != nil {
		return nil, fmt.Errorf("find namespace %s, which an engine creates when it first starts: %w", namespace, err)
	}
	if w.producer, err = kafka.NewProducer(cluster); err != nil {
		return nil, fmt.Errorf("open a producer: %w", err)
	}
	return w, nil
}

func (w *kafkaWay) close() {
	w.producer.Close()
	w.cluster.Close()
}

// submit produces all drafts and waits for their answers. A draft goes to the home partition of its task, so that the
// engine need not send it there.
func (w *kafkaWay) submit(ctx context.Context, drafts []draft) []Result {
	results := w.produce(ctx, w.records(drafts))
	for i := range results {
		if r := &results[i]; r.Err == nil {
			r.Token = tokenOf(r.Partition, r.Offset)
		}
	}
	return results
}

// send implements way. The engine takes signals from the submissions too, so that a producer need not be allowed to write reports.
func (w *kafkaWay) send(ctx context.Context, task string, s Signal) Result {
	r, err := events.EncodeRequest(
		events.Request{ID: s.RequestID, Kind: events.RequestSignal, Task: task, Signal: s.Name, Payload: s.Payload, Reason: s.Reason},
		events.Subject{ID: s.RequestID, Source: string(w.source), Time: events.At(time.Now())})
	if err != nil {
		return Result{Receipt: Receipt{ID: task, Offset: -1}, Err: err}
	}
	r.Topic, r.Partition = w.topic, events.Home(task, w.partitions)
	return w.produce(ctx, []events.Record{r})[0]
}

// produce sends records whose keys are task IDs, and waits for their answers.
func (w *kafkaWay) produce(ctx context.Context, records []events.Record) []Result {
	t := &tally{left: len(records), done: make(chan struct{}), results: make([]Result, len(records))}
	for i := range records {
		t.results[i] = Result{Receipt: Receipt{ID: string(records[i].Key), Partition: records[i].Partition, Offset: -1}, Err: ErrUnavailable}
	}
	w.producer.ProduceBatch(ctx, records, t.answer)
	select {
	case <-t.done:
		return t.results
	case <-ctx.Done():
		return t.unanswered(context.Cause(ctx))
	}
}

// tally collects the answers to a batch.
type tally struct {
	// done is closed when all answers have arrived; from then on results does not change.
	done chan struct{}

	mu sync.Mutex
	// mu guards the fields below.
	results []Result
	left    int
}

func (t *tally) answer(i int, _ int32, offset int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[i].Offset, t.results[i].Err = offset, produceError(err)
	if t.left--; t.left == 0 {
		close(t.done)
	}
}

// unanswered returns the results that have arrived, and for the others why they have not.
func (t *tally) unanswered(cause error) []Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.results) // answers may still come
	for i := range list {
		if errors.Is(list[i].Err, ErrUnavailable) {
			list[i].Err = fmt.Errorf("%w: %w", ErrUnavailable, cause)
		}
	}
	return list
}

func produceError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kafka.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case kafka.IsPermanent(err):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// The values of headers that are the same in all records.
var (
	valueSpecVersion = []byte("1.0")
	valueSubmission  = []byte(events.TypeSubmission)
	valueJSON        = []byte("application/json")
)

const (
	// recordHeaders are the headers of our records.
	recordHeaders = 7
	uuidBytes     = 36
)

// records creates the records of a batch. Their keys, identifiers and headers share memory.
func (w *kafkaWay) records(drafts []draft) []events.Record {
	size := 0
	for i := range drafts {
		size += len(drafts[i].id) + uuidBytes
	}
	text := make([]byte, 0, size)
	headers := make([]events.Header, 0, len(drafts)*recordHeaders)
	records := make([]events.Record, len(drafts))
	dice := bufio.NewReaderSize(rand.Reader, min(len(drafts)*len(uuid.UUID{}), randomBytes))
	now := []byte(events.At(time.Now()).String())
	for i := range drafts {
		d := &drafts[i]
		from := len(text)
		text = append(text, d.id...)
		key := text[from:len(text):len(text)]
		from = len(text)
		text = append(text, uuid.Must(uuid.NewRandomFromReader(dice)).String()...)
		id := text[from:len(text):len(text)]
		from = len(headers)
		headers = append(headers,
			events.Header{Key: events.HeaderSpecVersion, Value: valueSpecVersion},
			events.Header{Key: events.HeaderID, Value: id},
			events.Header{Key: events.HeaderSource, Value: w.source},
			events.Header{Key: events.HeaderType, Value: valueSubmission},
			events.Header{Key: events.HeaderTime, Value: now},
			events.Header{Key: events.HeaderSubject, Value: key},
			events.Header{Key: events.HeaderContentType, Value: valueJSON},
		)
		records[i] = events.Record{
			Topic: w.topic, Partition: events.Home(d.id, w.partitions), Key: key, Value: d.body, Headers: headers[from:len(headers):len(headers)],
		}
	}
	return records
}

// randomBytes is how many random bytes are read from the system at once.
const randomBytes = 4096
