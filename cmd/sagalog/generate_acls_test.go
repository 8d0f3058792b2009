package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func generated(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := generateCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(append([]string{"acls"}, args...))
	err := c.Execute()
	return out.String(), err
}

func TestGenerateACLsPrintsWhatARoleNeeds(t *testing.T) {
	t.Parallel()
	text, err := generated(t, "--role", "producer", "--principal", "User:shop", "--namespace", "ns", "--brokers", "k1:9092,k2:9092", "--command-config", "admin.properties")
	require.NoError(t, err)
	require.Equal(t, "kafka-acls.sh --bootstrap-server k1:9092,k2:9092 --command-config admin.properties --add --allow-principal 'User:shop' --operation Write --topic ns.submissions # WRITE: submits tasks\n", text)
	text, err = generated(t, "--role", "owner,projector", "--principal", "User:n")
	require.NoError(t, err)
	for _, part := range []string{ // what deleting records needs
		"--operation Delete --topic sagalog.submissions ", "--operation Delete --topic sagalog.reports ", "--operation Delete --topic sagalog.events ",
		"--operation Read --operation Delete --topic sagalog.work. --resource-pattern-type prefixed ", "--operation Read --operation Describe --group sagalog.agents. --resource-pattern-type prefixed ",
	} {
		require.Contains(t, text, part)
	}
	text, err = generated(t, "--role", "agent", "--agent", "pack", "--principal", "User:pack", "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, text, "{type: group, name: sagalog.agents.pack, patternType: literal}")
}

func TestGenerateACLsRefusesWhatItCannotPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		say  string
	}{
		{nil, "--role is missing"},
		{[]string{"--role", "agnt"}, `did you mean "agent"?`},
		{[]string{"--role", "api"}, "--principal is missing"},
		{[]string{"--role", "api", "--principal", "shop"}, "is not TYPE:NAME"},
		{[]string{"--role", "api", "--principal", "User:a", "--agent", "pack"}, "--agent needs --role agent"},
		{[]string{"--role", "api", "--principal", "User:a", "--reply-topic", "r"}, "--reply-topic needs --role owner"},
		{[]string{"--role", "api", "--principal", "User:a", "--brokers", "k; rm"}, "cannot stand in a command"},
		{[]string{"--role", "api", "--principal", "User:A B", "-o", "yaml"}, "cannot name a KafkaUser"},
		{[]string{"--role", "api", "--principal", "User:a", "-o", "xml"}, "is not known"},
		{[]string{"--role", "api", "--principal", "User:a", "--namespace", "a b"}, "--namespace"},
	} {
		_, err := generated(t, c.args...)
		require.ErrorContains(t, err, c.say)
	}
}
