package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsAreShownAndChanged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("GET", "/v1/settings", "")
	require.Equal(t, 200, r.status)
	require.Contains(t, string(r.body), `{"name":"remember_for","value":"168h","default":"168h","what":"how long a finished task and its ID are remembered"`)

	r = w.do("PUT", "/v1/settings", `{"settings":{"remember_for":"48h","task_facts":20000},"by":"anna"}`)
	require.Equal(t, 200, r.status, string(r.body))
	require.Contains(t, string(r.body), `"offset":1,"changed":true`)
	require.Contains(t, string(r.body), `{"name":"remember_for","value":"48h","default":"168h","offset":1,"set_at":"`)
	require.Contains(t, string(r.body), `"by":"anna"`)

	r = w.do("PUT", "/v1/settings", `{"settings":{"remember_for":"48h"}}`)
	require.Equal(t, 200, r.status)
	require.NotContains(t, string(r.body), `"changed"`, "it is the value already")
}

// A refusal names each setting and what is allowed, and nothing is changed.
func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/settings", `{"settings":{"remember_for":48,"remember":"1h","task_facts":20}}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, string(r.body), `{"pointer":"/settings/remember","message":"\"remember\" is not a setting; `)
	require.Contains(t, string(r.body), `{"pointer":"/settings/remember_for","message":"remember_for 48 is not possible: give a duration from 1s to 87600h, such as 168h"}`)
	for _, body := range []string{`{}`, `{"settings":{}}`, `{"settings":[]}`, `{"settings":{"grace":"1s"},"by":5}`, `{"settings":{"grace":"1s"},"bye":"x"}`, `[]`} {
		require.Equal(t, 422, w.do("PUT", "/v1/settings", body).status, body)
	}
	require.Contains(t, string(w.do("GET", "/v1/settings", "").body), `"offset":0`)
}

func TestTheLevelOfTheNamespaceIsRaised(t *testing.T) {
	t.Parallel()
	w := setup(t)
	shown := string(w.do("GET", "/v1/settings", "").body)
	require.Contains(t, shown, `"level":1,"nodes":[{"node":"node-a","level":3},{"node":"node-b","level":2}]`)

	r := w.do("POST", "/v1/settings/upgrade", `{"to":3}`)
	require.Equal(t, 409, r.status)
	require.Contains(t, string(r.body), `level 3 is not possible: node \"node-b\" understands level 2; upgrade that node first`)
	for _, body := range []string{`{"to":0}`, `{"to":"2"}`, `{"to":1001}`, `{"by":5}`, `{"level":2}`, `[]`} {
		require.Equal(t, 422, w.do("POST", "/v1/settings/upgrade", body).status, body)
	}
	require.Contains(t, string(w.do("GET", "/v1/settings", "").body), `"level":1,`)

	r = w.do("POST", "/v1/settings/upgrade", `{"by":"anna"}`)
	require.Equal(t, 200, r.status, string(r.body))
	require.Contains(t, string(r.body), `"changed":true,"level":2,"level_set_at":"2026-11-21T14:00:00.000Z","level_by":"anna"`)
	r = w.do("POST", "/v1/settings/upgrade", "")
	require.Equal(t, 200, r.status)
	require.NotContains(t, string(r.body), `"changed"`)
}
