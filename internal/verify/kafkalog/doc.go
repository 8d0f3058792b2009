// Package kafkalog reads the log of a namespace, from Kafka or from the files of the embedded broker, for package verify, which does not import a Kafka client. It
// writes nothing.
package kafkalog
