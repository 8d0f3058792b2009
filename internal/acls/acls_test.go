package acls_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/acls"
	"github.com/stretchr/testify/require"
)

func TestALineStandsOnceThoughSeveralRolesNeedIt(t *testing.T) {
	t.Parallel()
	both := acls.For(acls.Scope{Namespace: "ns"}, acls.Owner, acls.API)
	seen := map[acls.Line]bool{}
	for _, l := range both {
		same := acls.Line{Resource: l.Resource, Name: l.Name, Prefixed: l.Prefixed, Operation: l.Operation}
		require.False(t, seen[same], l)
		seen[same] = true
		require.NotEmpty(t, l.Why)
	}
	creates := both[slices.IndexFunc(both, func(l acls.Line) bool { return l.Prefixed && l.Operation == acls.Create })]
	require.False(t, creates.Optional, "an owner can do without, the API cannot")
	require.Len(t, acls.For(acls.Scope{Namespace: "ns"}, acls.Producer), 1)
	require.Empty(t, acls.For(acls.Scope{Namespace: "ns"}, "unknown"))
}

func TestRepliesGoToTheTopicsThatTheSettingAllows(t *testing.T) {
	t.Parallel()
	lines := acls.For(acls.Scope{Namespace: "ns", Replies: []string{"shop.answers", "crm.*"}}, acls.Owner)
	last := lines[len(lines)-2:]
	require.Equal(t, acls.Line{Resource: acls.Topic, Name: "shop.answers", Operation: acls.Write, Why: last[0].Why}, last[0])
	require.Equal(t, acls.Line{Resource: acls.Topic, Name: "crm.", Prefixed: true, Operation: acls.Write, Why: last[1].Why}, last[1])
}

func TestCommandsSurviveAShell(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	lines := acls.For(acls.Scope{Namespace: "ns", Agents: []string{"pack"}}, acls.Agent)
	require.NoError(t, acls.Commands(&out, "kafka-acls.sh --bootstrap-server k1:9092", "User:it's", lines))
	require.Contains(t, out.String(), `kafka-acls.sh --bootstrap-server k1:9092 --add --allow-principal 'User:it'\''s' --operation Read --operation Create --topic ns.work.pack # READ: `)
	for line := range strings.Lines(out.String()) {
		command, _, commented := strings.Cut(line, " # ")
		require.True(t, commented)
		require.Contains(t, command, "--operation ")
	}
	out.Reset()
	require.NoError(t, acls.Commands(&out, "kafka-acls.sh", "User:o", acls.For(acls.Scope{Namespace: "ns"}, acls.Owner)))
	require.Contains(t, out.String(), "--operation Describe --cluster # DESCRIBE (optional): ")
	require.Contains(t, out.String(), "--operation DescribeConfigs --operation Create --operation Read --operation Write --topic ns.definitions # ")
	require.Contains(t, out.String(), "--operation Read --operation Describe --group ns.agents. --resource-pattern-type prefixed # ")
}

func TestJSONAndTheKafkaUserHaveTheSameLines(t *testing.T) {
	t.Parallel()
	lines := acls.For(acls.Scope{Namespace: "ns"}, acls.Owner)
	var text, user bytes.Buffer
	require.NoError(t, acls.JSON(&text, "User:o", lines))
	var grants []acls.Grant
	require.NoError(t, json.Unmarshal(text.Bytes(), &grants))
	require.Len(t, grants, len(lines))
	require.Equal(t, acls.Grant{Principal: "User:o", Resource: acls.Topic, Name: "ns.definitions", Pattern: "literal", Operation: "DESCRIBE_CONFIGS", Why: lines[0].Why}, grants[0])
	require.NoError(t, acls.KafkaUser(&user, "o", lines))
	require.Equal(t, len(lines), strings.Count(user.String(), "          - "))
	require.Contains(t, user.String(), "{type: topic, name: ns.work., patternType: prefix}")
	require.Contains(t, user.String(), "{type: cluster}\n        operations:\n          - Describe #")
}
