// Package kafka is the one place that knows a Kafka client and the embedded broker.
package kafka
