package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The setting takes a list or a text with commas, and keeps it sorted.
func TestReplyTopicsAreAListOrAText(t *testing.T) {
	t.Parallel()
	x, err := events.SettingOf("reply_topics")
	require.NoError(t, err)
	for value, want := range map[string]string{
		`["shop.replies","billing.*","shop.replies"]`: "billing.*,shop.replies", `"shop.replies, billing.*"`: "billing.*,shop.replies", `""`: "", `[]`: "",
	} {
		var s events.Settings
		require.NoError(t, x.Set(&s, json.RawMessage(value)), value)
		require.Equal(t, want, s.ReplyTopics)
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, value := range []string{`"*"`, `"a b"`, `"a,,b"`, `"a/b"`, `"__consumer_offsets"`, `7`, `null`, `{}`, `[1]`, `"` + strings.Join(many, ",") + `"`} {
		s := events.Settings{ReplyTopics: "kept"}
		require.ErrorContains(t, x.Set(&s, json.RawMessage(value)), "reply_topics", value)
		require.Equal(t, "kept", s.ReplyTopics)
	}
}

// A topic is allowed by its name or by the beginning of its name. The namespace's own topics never are.
func TestOnlyTheNamedTopicsTakeReplies(t *testing.T) {
	t.Parallel()
	s := events.Settings{ReplyTopics: "_*,billing.*,sagalog*,dlq.*,shop.replies"}
	for _, topic := range []string{"", "billing.", "billing.out", "shop.replies", "sagalogs", "dlq.shop", "_schemas"} {
		require.NoError(t, s.CheckReplyTopic("sagalog", topic), topic)
	}
	for _, topic := range []string{"sagalog.submissions", "sagalog.events", "dlq.sagalog.reports"} {
		require.ErrorContains(t, s.CheckReplyTopic("sagalog", topic), "belongs to the namespace sagalog", topic)
	}
	require.ErrorContains(t, s.CheckReplyTopic("sagalog", "__consumer_offsets"), "belongs to Kafka itself")
	require.EqualError(t, s.CheckReplyTopic("sagalog", "shop.replies2"), `/reply_to: topic "shop.replies2" is not among those that take replies; `+
		"an operator allows it by `sagalog namespace set reply_topics=_*,billing.*,sagalog*,dlq.*,shop.replies,shop.replies2`")
	s = events.Settings{}
	require.ErrorContains(t, s.CheckReplyTopic("sagalog", "a"), "`sagalog namespace set reply_topics=a`")
}

// A large output is left out, and the reply says so.
func TestALargeOutputIsLeftOutOfTheReply(t *testing.T) {
	t.Parallel()
	output := json.RawMessage(`"` + strings.Repeat("x", events.MaxReplyOutput-2) + `"`)
	for n, output := range []json.RawMessage{output, json.RawMessage(`"x` + string(output[1:]))} {
		r, err := events.EncodeReply(events.Reply{ID: "a", State: events.ReplyProcessed, Output: output}, "a", events.Position{}, events.Subject{})
		require.NoError(t, err)
		var got events.Reply
		require.NoError(t, json.Unmarshal(r.Value, &got))
		require.Equal(t, n > 0, got.OutputOmitted)
		require.Equal(t, n == 0, len(got.Output) > 0)
		smaller, ok := events.WithoutOutput(r)
		require.Equal(t, n == 0, ok)
		require.Equal(t, ok, strings.Contains(string(smaller.Value), `"output_omitted":true`))
	}
}

// The sequences of replies sort as text, across epochs.
func TestTheSequencesOfRepliesSortAsText(t *testing.T) {
	t.Parallel()
	last := ""
	for _, at := range []events.Position{{Epoch: events.Epoch{N: 2, ID: "b"}, Sequence: 9}, {Epoch: events.Epoch{N: 2, ID: "b"}, Sequence: 10}, {Epoch: events.Epoch{N: 10, ID: "a"}, Sequence: 1}} {
		r, err := events.EncodeReply(events.Reply{ID: "a", State: events.ReplyReceived}, "k", at, events.Subject{ID: "x"})
		require.NoError(t, err)
		require.Equal(t, "sagalog.reply.received", r.Header(events.HeaderType))
		require.Equal(t, "a", r.Header(events.HeaderSubject))
		require.Equal(t, "k", string(r.Key))
		require.Equal(t, events.ByKey, r.Partition)
		require.Greater(t, r.Header(events.HeaderSequence), last)
		last = r.Header(events.HeaderSequence)
	}
	require.Equal(t, "00000010-000000000001", last)
}

// What a rejected submission says about its reply is read as far as possible.
func TestTheReplyOfARejectedSubmissionIsReadAsFarAsPossible(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]*events.ReplyTo{
		`{"workflow":7,"reply_to":"r"}`:                                   {To: "r", ID: "key"},
		`{"workflow":"w","id":"a","reply_to":"r","reply_key":"k","x":[]}`: {To: "r", Key: "k", ID: "a", Workflow: "w"},
		`{"workflow":"w","id":"..","reply_to":"r"}`:                       {To: "r", ID: "key", Workflow: "w"},
		`{"workflow":"w","reply_to":"r/"}`:                                nil, `{"workflow":"w","reply_to":7}`: nil, `{"Reply_To":"r"}`: nil, `[]`: nil, `{`: nil,
	} {
		require.Equal(t, want, events.ReplyOf([]byte(data), "key"), data)
	}
}
