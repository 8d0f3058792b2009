package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// KafkaConfig says how to reach the log.
type KafkaConfig struct {
	// Brokers are host:port of some brokers.
	Brokers []string
	// Namespace is the engine's; default "sagalog".
	Namespace string
	// TLS is nil for plain text.
	TLS *tls.Config
	// SASLMechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for no authentication.
	SASLMechanism, User, Password string
}

// Kafka connects to the brokers of an engine of the default namespace.
func Kafka(ctx context.Context, brokers ...string) (*Client, error) {
	return KafkaWith(ctx, KafkaConfig{Brokers: brokers})
}

// KafkaWith connects to the log of an engine. It returns an error where no broker answers before ctx ends, or the
// namespace is not there: topics are the engine's to make.
func KafkaWith(ctx context.Context, cfg KafkaConfig) (*Client, error) {
	c := kafka.ClusterConfig{Brokers: cfg.Brokers, TLS: cfg.TLS, ClientID: "sagalog-client"}
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
	return &Client{way: w}, nil
}

const defaultNamespace = "sagalog"

// kafkaWay produces to <ns>.submissions.
type kafkaWay struct {
	cluster    *kafka.Cluster
	producer   *kafka.Producer
	topic      string
	source     string
	partitions int32
}

func newKafkaWay(ctx context.Context, cluster *kafka.Cluster, namespace string) (*kafkaWay, error) {
	if namespace == "" {
		namespace = defaultNamespace
	}
	if err := cluster.Ping(ctx); err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	w := &kafkaWay{cluster: cluster, topic: kafka.Topics{Namespace: namespace}.Submissions(), source: "/" + namespace + "/client"}
	var err error
	if w.partitions, err = cluster.Partitions(ctx, w.topic); err != nil {
		return nil, fmt.Errorf("find namespace %s, which an engine makes when it first starts: %w", namespace, err)
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
	type ack struct {
		i      int
		offset int64
		err    error
	}
	results := make([]Result, len(drafts))
	acks := make(chan ack, len(drafts))
	for i, d := range drafts {
		r := w.record(d)
		results[i] = Result{Receipt: Receipt{ID: d.id, Partition: r.Partition, Offset: -1}, Err: ErrUnavailable}
		w.producer.Produce(ctx, r, func(_ int32, offset int64, err error) { acks <- ack{i, offset, err} })
	}
	for range drafts {
		select {
		case a := <-acks:
			results[a.i].Offset, results[a.i].Err = a.offset, produceError(a.err)
		case <-ctx.Done():
			for i := range results {
				if errors.Is(results[i].Err, ErrUnavailable) {
					results[i].Err = fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
				}
			}
			return results
		}
	}
	return results
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

func (w *kafkaWay) record(d draft) events.Record {
	header := func(k, v string) events.Header { return events.Header{Key: k, Value: []byte(v)} }
	return events.Record{
		Topic: w.topic, Partition: events.Home(d.id, w.partitions), Key: []byte(d.id), Value: d.body,
		Headers: []events.Header{
			header(events.HeaderSpecVersion, "1.0"),
			header(events.HeaderID, uuid.NewString()),
			header(events.HeaderSource, w.source),
			header(events.HeaderType, events.TypeSubmission),
			header(events.HeaderTime, events.At(time.Now()).String()),
			header(events.HeaderSubject, d.id),
			header(events.HeaderContentType, "application/json"),
		},
	}
}
