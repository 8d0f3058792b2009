package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Replied is a state of a task that is answered in the reply topic of its submission. On the wire it ends the ce_type of the reply.
type Replied string

// The states that are answered. A submission that becomes a dead letter is answered once, with rejected. A task is answered with received
// when it is accepted, with processing when its first step begins, with error each time it is parked, and with one of the others when it ends.
const (
	ReplyReceived   Replied = "received"
	ReplyProcessing Replied = "processing"
	ReplyProcessed  Replied = "processed"
	ReplyUndone     Replied = "undone"
	ReplyError      Replied = "error"
	ReplyTerminated Replied = "terminated"
	ReplyRejected   Replied = "rejected"
)

// TypeReplyPrefix is the beginning of the ce_type of a reply; the state follows.
const TypeReplyPrefix = "sagalog.reply."

// Reply is the value of a record in a reply topic.
type Reply struct {
	// ID is the ID of the task; empty if a rejected submission names none.
	ID       string  `json:"id,omitempty"`
	Workflow string  `json:"workflow,omitempty"`
	State    Replied `json:"state"`
	// Output is that of a processed task. OutputOmitted says that it was too large for a reply.
	Output        json.RawMessage   `json:"output,omitempty"`
	OutputOmitted bool              `json:"output_omitted,omitzero"`
	Reason        string            `json:"reason,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	At            Instant           `json:"at"`
}

// MaxReplyOutput bounds the output in a reply: with the labels and the reason it fits a topic with Kafka's default limit of 1 MiB.
const MaxReplyOutput = 256 << 10

// ReplyTo is what a rejected submission says about its reply, as far as it can be read.
type ReplyTo struct {
	To       string `json:"to"`
	Key      string `json:"key,omitempty"`
	ID       string `json:"id,omitempty"`
	Workflow string `json:"workflow,omitempty"`
}

const (
	// MaxReplyKey bounds reply_key.
	MaxReplyKey = 255
	// maxTopicName is Kafka's.
	maxTopicName = 249
	// maxReplyTopics bounds the names in the setting reply_topics.
	maxReplyTopics = 64
)

// EncodeReply returns the record of a reply to the fact at a position. Its topic's partition follows from the key, so it has none.
func EncodeReply(r Reply, key string, at Position, s Subject) (Record, error) {
	if len(r.Output) > MaxReplyOutput {
		r.Output, r.OutputOmitted = nil, true
	}
	rec, err := encode(r, key, TypeReplyPrefix+string(r.State), r.ID, s)
	if err != nil {
		return Record{}, err
	}
	sequence := fmt.Sprintf("%08d-%012d", at.Epoch.N, at.Sequence) // sorts as text
	rec.Headers = append(rec.Headers, Header{Key: HeaderSequence, Value: []byte(sequence)})
	rec.Partition = ByKey
	return rec, nil
}

// WithoutOutput returns a reply without its output, for a topic that takes no record of that size; false if it has none.
func WithoutOutput(reply Record) (Record, bool) {
	var r Reply
	if json.Unmarshal(reply.Value, &r) != nil || len(r.Output) == 0 {
		return Record{}, false
	}
	r.Output, r.OutputOmitted = nil, true
	b, err := Marshal(r)
	reply.Value = b
	return reply, err == nil
}

// checkReply returns a fault of the members about the reply.
func (s *Submission) checkReply() error {
	if s.ReplyTo != "" && !topicName(s.ReplyTo) {
		return memberError("/reply_to", "is not the name of a topic: 1 to %d letters, digits, dots, dashes and underscores", maxTopicName)
	}
	if s.ReplyKey == "" {
		return nil
	}
	if !replyKey(s.ReplyKey) {
		return memberError("/reply_key", "is longer than %d bytes", MaxReplyKey)
	}
	if s.ReplyTo == "" {
		return memberError("/reply_key", "has no effect without reply_to, the topic of the replies")
	}
	return nil
}

func replyKey(key string) bool { return len(key) <= MaxReplyKey && utf8.ValidString(key) }

func topicName(name string) bool {
	return name != "" && len(name) <= maxTopicName && name != "." && name != ".." && strings.Trim(name, topicLetters) == ""
}

const topicLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// ReplyTopicList returns the topics that the settings allow for replies: names, or beginnings of names that end in a star.
func (s *Settings) ReplyTopicList() []string {
	if s.ReplyTopics == "" {
		return nil
	}
	return strings.Split(s.ReplyTopics, ",")
}

// internalTopics begins the names of the topics that Kafka keeps for itself.
const internalTopics = "__"

// CheckReplyTopic returns why replies may not go to a topic. The namespace's own topics and those of Kafka are never allowed: a reply in one
// would be an input, or lie among records of another kind.
func (s *Settings) CheckReplyTopic(namespace, topic string) error {
	switch {
	case topic == "":
		return nil
	case strings.HasPrefix(topic, namespace+".") || strings.HasPrefix(topic, "dlq."+namespace+"."):
		return memberError("/reply_to", "topic %q belongs to the namespace %s, and takes no replies: name a topic of the submitter", topic, namespace)
	case strings.HasPrefix(topic, internalTopics):
		return memberError("/reply_to", "topic %q belongs to Kafka itself, and takes no replies: name a topic of the submitter", topic)
	case slices.ContainsFunc(s.ReplyTopicList(), func(allowed string) bool { return covers(allowed, topic) }):
		return nil
	}
	return memberError("/reply_to", "topic %q is not among those that take replies; an operator allows it by `sagalog namespace set reply_topics=%s`", topic,
		strings.Join(append(s.ReplyTopicList(), topic), ","))
}

// covers says whether a name of the setting is the topic, or the beginning of its name.
func covers(allowed, topic string) bool {
	if beginning, ok := strings.CutSuffix(allowed, "*"); ok {
		return strings.HasPrefix(topic, beginning)
	}
	return allowed == topic
}

// readReplyTopics reads the value of the setting reply_topics: a list of texts, or one text with commas. It returns it with commas.
func readReplyTopics(value json.RawMessage) (string, bool) {
	var list []string
	if len(value) > 0 && value[0] == '[' {
		if json.Unmarshal(value, &list) != nil {
			return "", false
		}
	} else {
		var text string
		if json.Unmarshal(value, &text) != nil || isNull(value) {
			return "", false
		}
		if text != "" {
			list = strings.Split(text, ",")
		}
	}
	for i, name := range list {
		name = strings.TrimSpace(name)
		if list[i] = name; !topicName(strings.TrimSuffix(name, "*")) || strings.HasPrefix(name, internalTopics) {
			return "", false
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return strings.Join(list, ","), len(list) <= maxReplyTopics
}

// ReplyOf returns what a rejected submission says about its reply, as far as it can be read; nil if it asks for none. id is the ID of its
// task, if that is known from elsewhere.
func ReplyOf(data []byte, id string) *ReplyTo {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	text := func(name string) (s string) {
		if json.Unmarshal(members[name], &s) != nil {
			return ""
		}
		return s
	}
	x := &ReplyTo{To: text("reply_to"), Key: text("reply_key"), ID: text("id"), Workflow: Clip(text("workflow"), MaxTaskID)}
	if CheckTaskID(x.ID) != nil {
		x.ID = id
	}
	if !replyKey(x.Key) {
		x.Key = ""
	}
	if !topicName(x.To) {
		return nil
	}
	return x
}

// KeyOf returns the key of the replies to a submission: its reply_key, or the ID of its task.
func (r *ReplyTo) KeyOf() string {
	if r.Key != "" {
		return r.Key
	}
	return r.ID
}
