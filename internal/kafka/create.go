package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// CreateError is returned when the cluster refuses to create a topic.
type CreateError struct {
	Topic string
	// Reason is the broker's explanation.
	Reason string
	// Command creates the topic, for somebody who is allowed to.
	Command string
	// Grants is the command that prints which permissions this process needs.
	Grants string
	Err    error
}

func (e *CreateError) Error() string { return events.Sentence(e.What()) + " Remedy: " + e.Remedy() }

func (e *CreateError) Unwrap() error { return e.Err }

// What describes which topic was refused, and why.
func (e *CreateError) What() string {
	if errors.Is(e.Err, kerr.InvalidReplicationFactor) {
		return fmt.Sprintf("fewer brokers are alive than the topic %s needs for its copies: %s", e.Topic, e.Reason)
	}
	return fmt.Sprintf("the cluster refuses to create the topic %s: %s", e.Topic, e.Reason)
}

// Remedy says what an operator can do.
func (e *CreateError) Remedy() string {
	switch {
	case errors.Is(e.Err, kerr.InvalidReplicationFactor):
		return "start the missing brokers (this program waits for them when it starts), or create the topic with fewer copies by: " + e.Command
	case errors.Is(e.Err, kerr.InvalidTopicException):
		return "choose another --namespace: a topic name has at most 249 characters, and two names may not differ only in . and _"
	}
	return "ask somebody with the permission to create it by: " + e.Command + "\n  or to permit what the roles need, which `" + e.Grants + "` prints"
}

// reason joins the error code and the broker's message, which often say the same.
func reason(err error, message string) string {
	text := err.Error()
	if message != "" && !strings.Contains(text, message) {
		text += " (" + message + ")"
	}
	return text
}

// create creates one topic. It is not an error if the topic already exists: another node was faster.
func (c *Cluster) create(ctx context.Context, s TopicSpec, replication int16) error {
	if c.cfg.Embedded {
		s.Retention = 0                                         // the offsets of a partition that it empties begin at 0 again
		s.SegmentBytes = min(s.SegmentBytes, inputSegmentBytes) // it reads whole segments into memory when it starts
	}
	return c.askToCreate(ctx, s, replication, c.admin.CreateTopics)
}

// CheckCreate asks whether the cluster would create a topic, without creating it. It returns a *CreateError if not.
func (c *Cluster) CheckCreate(ctx context.Context, s TopicSpec, replication int16) error {
	return c.askToCreate(ctx, s, replication, c.admin.ValidateCreateTopics)
}

func (c *Cluster) askToCreate(ctx context.Context, s TopicSpec, replication int16,
	ask func(context.Context, int32, int16, map[string]*string, ...string) (kadm.CreateTopicResponses, error),
) error {
	var resp kadm.CreateTopicResponses
	err := retry(ctx, func() (err error) {
		resp, err = ask(ctx, s.Partitions, replication, s.settings(replication), s.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", s.Name, fromClient(err))
	}
	r := resp[s.Name]
	if r.Err == nil || errors.Is(r.Err, kerr.TopicAlreadyExists) {
		return nil
	}
	return &CreateError{Topic: s.Name, Reason: reason(r.Err, r.ErrMessage), Command: c.CreateCommand(s, replication), Grants: c.cfg.Grants(), Err: r.Err}
}

// CreateCommand is the command with which an administrator creates a topic as we would.
func (c *Cluster) CreateCommand(s TopicSpec, replication int16) string {
	text := fmt.Sprintf("%s --create --topic %s --partitions %d --replication-factor %d",
		c.cfg.Script("kafka-topics.sh"), s.Name, s.Partitions, replication)
	settings := s.settings(replication)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		text += " --config " + key + "=" + *settings[key]
	}
	return text
}
