package dronedelivery_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// taskID is the rule of events/FORMAT.md for task IDs.
func taskID(id string) bool {
	return id != "" && len(id) <= 255 && utf8.ValidString(id) && id != "." && id != ".." && !strings.ContainsFunc(id, unicode.IsControl)
}

func FuzzPathIDs(f *testing.F) {
	for _, id := range []string{"delivery-1", "a/b", "//", "a b", "ä/日本", "%2F", "?x=1#y", "a+b", "..a", "{id}", ";", "a%", "\u2028"} {
		f.Add(id)
	}
	shared := setup(f)
	f.Fuzz(func(t *testing.T, id string) {
		if !taskID(id) {
			t.Skip()
		}
		w := &world{t: t, urls: shared.urls, client: shared.client}
		path := "/api/packages/" + url.PathEscape(id)
		status, body := w.do(call{service: "package", method: "PUT", path: path, task: "t", body: "{}"})
		require.Less(t, status, 300, body)
		var got struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Equal(t, id, got.ID)
		status, again := w.do(call{service: "package", method: "GET", path: path})
		require.Equal(t, 200, status)
		require.Equal(t, body, again)
	})
}
