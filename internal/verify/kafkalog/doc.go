// Package kafkalog reads the log of a namespace from Kafka for package verify, which does not import a Kafka client. It
// writes nothing.
package kafkalog
