package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Values that cannot work are refused before anything is installed, and the message says what to change.
func TestWrongValuesAreRefused(t *testing.T) {
	const brokers = "kafka: {brokers: ['kafka:9092']}\n"
	for name, c := range map[string]struct{ values, says string }{
		"no brokers":            {"{}", "kafka.brokers is empty"},
		"broker without port":   {"kafka: {brokers: [kafka]}", "does not match pattern"},
		"nobody may call":       {brokers + "access: {secret: ''}", "callers must be known"},
		"nodes without a key":   {brokers + "access: {nodeKey: ''}", "nodes pass requests to each other"},
		"issuer alone":          {brokers + "access: {oidc: {issuer: 'https://login.example'}}", "access.oidc.audience"},
		"unknown role":          {brokers + "access: {oidc: {roles: [a=root]}}", "does not match pattern"},
		"user without password": {"kafka: {brokers: ['kafka:9092'], sasl: {mechanism: PLAIN, user: u}}", "the name of the Secret with its password"},
		"password as a value":   {"kafka: {brokers: ['kafka:9092'], sasl: {password: p}}", "additional properties 'password' not allowed"},
		"misspelt value":        {brokers + "owners: {replica: 3}", "additional properties 'replica' not allowed"},
		"webhook unsigned":      {brokers + "webhook: {url: 'https://ops.example'}", "webhook.secret is empty"},
		"webhook to nowhere":    {brokers + "webhook: {secret: s}", "webhook.url is empty"},
		"two webhooks":          {brokers + "webhook: {secret: s, url: 'https://ops.example', urlSecret: s}", "leave one out"},
		"agent without files":   {brokers + "agents: {shop: {}}", "agents.shop has no files"},
		"agent with two":        {brokers + "agents: {shop: {configMap: c, files: {a.yaml: x}}}", "leave one out"},
		"callbacks unsigned":    {brokers + "agents: {shop: {configMap: c, callbacks: true}}", "callbacks.secret"},
		"workflows twice":       {brokers + "workflows: {configMap: c, files: {a.yaml: x}}", "leave one out"},
		"no time to stop":       {brokers + "owners: {terminationGracePeriodSeconds: 5}", "minimum"},
	} {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			require.NoError(t, yaml.UnmarshalStrict([]byte(c.values), &values))
			_, err := render(values)
			require.ErrorContains(t, err, c.says)
		})
	}
}
