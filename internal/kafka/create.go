package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// CreateError is returned when the cluster refuses to make a topic.
type CreateError struct {
	Topic string
	// Reason is the broker's.
	Reason string
	// Command makes the topic, for somebody who may.
	Command string
	Err     error
}

func (e *CreateError) Error() string { return e.what() + ". Remedy: " + e.remedy() }

func (e *CreateError) Unwrap() error { return e.Err }

func (e *CreateError) what() string {
	return fmt.Sprintf("the cluster refuses to make the topic %s: %s", e.Topic, e.Reason)
}

func (e *CreateError) remedy() string {
	switch {
	case errors.Is(e.Err, kerr.InvalidReplicationFactor):
		return "start the brokers that are missing, or make the topic with fewer copies by: " + e.Command
	case errors.Is(e.Err, kerr.InvalidTopicException):
		return "choose another --namespace: topic names have 249 letters at most, and no two may differ only in . and _"
	}
	return "let somebody who may make it by: " + e.Command
}

// reason joins what a code says and what the broker adds, which is often the same.
func reason(err error, message string) string {
	text := err.Error()
	if message != "" && !strings.Contains(text, message) {
		text += " (" + message + ")"
	}
	return text
}

// create makes one topic. That it is there already is no error: another node was quicker.
func (c *Cluster) create(ctx context.Context, s TopicSpec, replication int16) error {
	var resp kadm.CreateTopicResponses
	err := again(ctx, func() (err error) {
		resp, err = c.admin.CreateTopics(ctx, s.Partitions, replication, s.settings(replication), s.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", s.Name, err)
	}
	r := resp[s.Name]
	if r.Err == nil || errors.Is(r.Err, kerr.TopicAlreadyExists) {
		return nil
	}
	return &CreateError{Topic: s.Name, Reason: reason(r.Err, r.ErrMessage), Command: c.createCommand(s, replication), Err: r.Err}
}

// createCommand is what an administrator runs to make a topic as we would.
func (c *Cluster) createCommand(s TopicSpec, replication int16) string {
	text := fmt.Sprintf("%s --create --topic %s --partitions %d --replication-factor %d",
		c.cfg.bootstrap("kafka-topics.sh"), s.Name, s.Partitions, replication)
	settings := s.settings(replication)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		text += " --config " + key + "=" + *settings[key]
	}
	return text
}
