package httpagent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

var errNotJSON = errors.New("the body is not the JSON that its content type promises")

// decodeBody turns a body into JSON. An empty one becomes null. A body whose content type is JSON stays as it is. So does an
// object or array without a content type, since many services forget it. A text such as 007 must not become a number. Other
// text becomes a string, and bytes that are not text become {"base64": "..."}.
func decodeBody(contentType string, body []byte) (json.RawMessage, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(body)
	declared := isJSON(contentType)
	if len(body) == 0 || declared && len(trimmed) == 0 {
		return json.RawMessage("null"), nil
	}
	structured := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
	if (declared || structured) && json.Valid(trimmed) {
		if !utf8.Valid(trimmed) {
			// JSON is UTF-8. Invalid bytes are replaced here, since facts and state must not hold them.
			trimmed = bytes.ToValidUTF8(trimmed, []byte("\uFFFD"))
		}
		return events.Compact(trimmed)
	}
	if declared {
		return nil, errNotJSON
	}
	if text, ok := decodeText(contentType, body); ok {
		return events.Marshal(text)
	}
	return events.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(body)})
}

// decodeText decodes a body by the charset of its content type, which is UTF-8 unless it says otherwise.
func decodeText(contentType string, body []byte) (string, bool) {
	_, params, _ := mime.ParseMediaType(contentType)
	if e, err := htmlindex.Get(params["charset"]); err == nil && !utf8.Valid(body) {
		text, err := e.NewDecoder().Bytes(body)
		return string(text), err == nil && utf8.Valid(text)
	}
	return string(body), utf8.Valid(body)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"))
}

// wordsLimit bounds the part of a refusal that a message quotes, and excerptLimit the part that its detail keeps if the whole
// is over agent.DetailLimit. It leaves room for the escapes of JSON.
const (
	wordsLimit   = 200
	excerptLimit = agent.DetailLimit / 8
)

// quote keeps the service's own words: the body of its answer as the detail of the failure, and its explanation in the message.
func (x *exchange) quote(f *agent.Failure, contentType string, body []byte) {
	if len(body) > agent.DetailLimit {
		// Secrets are replaced before the cut, which could leave a part of one that nothing recognizes.
		if text, ok := decodeText(contentType, bytes.ToValidUTF8(body, nil)); ok {
			f.Detail, _ = events.Marshal(events.Clip(x.redact(text), excerptLimit))
		}
	} else {
		f.Detail, _ = decodeBody(contentType, body)
	}
	if words := explanation(contentType, f.Detail); words != "" {
		f.Err = fmt.Errorf("%w: %s", f.Err, events.Clip(x.redact(words), wordsLimit))
	}
}

func (x *exchange) redact(text string) string {
	return x.grant.hidden.Text(x.binding.secrets.Text(text))
}

// explanations are the members in which services explain a refusal, the most specific one first. Those of RFC 9457 are among
// them.
var explanations = []string{"detail", "message", "error_description", "error", "reason", "title"}

// explanation returns the sentence in which a service explains its refusal, or "". A page of HTML has none that is worth quoting.
func explanation(contentType string, detail json.RawMessage) string {
	if t, _, _ := mime.ParseMediaType(contentType); t == "text/html" {
		return ""
	}
	var text string
	if json.Unmarshal(detail, &text) == nil {
		return strings.TrimSpace(text)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(detail, &members) != nil {
		return ""
	}
	for _, name := range explanations {
		if json.Unmarshal(members[name], &text) == nil && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return ""
}
